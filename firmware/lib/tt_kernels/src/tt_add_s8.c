#include "tt_dsp.h"

#if !TT_DSP

#include "tt_fixed_point.h"
#include "tt_kernels.h"

#define TT_ADD_LEFT_SHIFT 20

static int8_t add(const tt_add_s8_params *p, int32_t a, int32_t b)
{
    const int32_t scaled_a = tt_multiply_by_quantized_multiplier(
        (a - p->zero_point_a) * (1 << TT_ADD_LEFT_SHIFT), p->multiplier_a, p->shift_a);
    const int32_t scaled_b = tt_multiply_by_quantized_multiplier(
        (b - p->zero_point_b) * (1 << TT_ADD_LEFT_SHIFT), p->multiplier_b, p->shift_b);
    const int32_t sum =
        tt_multiply_by_quantized_multiplier(scaled_a + scaled_b, p->multiplier, p->shift);
    return (int8_t)tt_clamp(sum + p->zero_point, p->act_min, p->act_max);
}

void tt_add_s8(const tt_add_s8_params *params, const tt_add_s8_io *io)
{
    const int32_t *n = params->loops.extents;
    const int32_t *step_a = params->loops.strides_a;
    const int32_t *step_b = params->loops.strides_b;
    int8_t *out = io->output;
    for (int32_t i = 0; i < n[0]; i++) {
        for (int32_t j = 0; j < n[1]; j++) {
            for (int32_t k = 0; k < n[2]; k++) {
                const int8_t *a = io->a + i * step_a[0] + j * step_a[1] + k * step_a[2];
                const int8_t *b = io->b + i * step_b[0] + j * step_b[1] + k * step_b[2];
                for (int32_t m = 0; m < n[3]; m++) {
                    *out++ = add(params, a[m * step_a[3]], b[m * step_b[3]]);
                }
            }
        }
    }
}

#endif
