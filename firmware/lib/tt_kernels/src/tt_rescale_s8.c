#include "tt_fixed_point.h"
#include "tt_kernels.h"

void tt_rescale_s8(const tt_rescale_s8_params *params, const tt_rescale_s8_io *io)
{
    for (uint32_t i = 0; i < params->count; i++) {
        const int32_t scaled = tt_multiply_by_quantized_multiplier(
            io->input[i] - params->input_zero_point, params->multiplier, params->shift);
        io->output[i] = (int8_t)tt_clamp(tt_wrapping_add(scaled, params->zero_point),
                                         params->act_min, params->act_max);
    }
}
