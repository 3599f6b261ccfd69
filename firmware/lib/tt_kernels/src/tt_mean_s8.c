#include "tt_fixed_point.h"
#include "tt_kernels.h"

static int32_t sum(const tt_mean_s8_params *p, const int8_t *input)
{
    const tt_reduction *r = &p->reduction;
    int32_t total = 0;
    for (int32_t i = 0; i < r->reduced_outer; i++) {
        for (int32_t j = 0; j < r->reduced_inner; j++) {
            total += input[i * r->reduced_outer_stride + j * r->reduced_inner_stride] -
                     p->input_zero_point;
        }
    }
    return total;
}

void tt_mean_s8(const tt_mean_s8_params *params, const tt_mean_s8_io *io)
{
    const tt_reduction *r = &params->reduction;
    int8_t *out = io->output;
    for (int32_t i = 0; i < r->kept_outer; i++) {
        for (int32_t j = 0; j < r->kept_inner; j++) {
            const int8_t *first = io->input + i * r->kept_outer_stride + j * r->kept_inner_stride;
            const int32_t scaled = tt_multiply_by_quantized_multiplier(
                sum(params, first), params->multiplier, params->shift);
            *out++ = (int8_t)tt_clamp(tt_wrapping_add(scaled, params->zero_point), -128, 127);
        }
    }
}
