#include "tt_dsp.h"

#if !TT_DSP

#include "tt_error.h"
#include "tt_kernels.h"

#define TT_ONE_Q14 16384.0f

void tt_add_errors(const tt_add_errors_params *params, const tt_add_errors_io *io,
                   const tt_step *step)
{
    const float scale_a = *io->scale_a * params->gain_a;
    const float scale_b = *io->scale_b * params->gain_b;
    const float largest = scale_b > scale_a ? scale_b : scale_a;
    int32_t weight_a = 1 << 14;
    int32_t weight_b = 1 << 14;
    if (largest != 0.0f) {
        weight_a = (int32_t)((scale_a / largest) * TT_ONE_Q14 + 0.5f);
        weight_b = (int32_t)((scale_b / largest) * TT_ONE_Q14 + 0.5f);
    }
    const float unit = largest * 0x1p-14f;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    for (uint32_t i = 0; i < params->count; i++) {
        io->sum[i] = tt_error_next(&requantizer, io->a[i] * weight_a + io->b[i] * weight_b);
    }
    *io->sum_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}

#endif
