#include "tt_dsp.h"

#if !TT_DSP

#include "tt_error.h"
#include "tt_kernels.h"

void tt_add_errors(const tt_add_errors_params *params, const tt_add_errors_io *io,
                   const tt_step *step)
{
    const tt_error_weights weights =
        tt_error_weights_of(*io->scale_a * params->gain_a, *io->scale_b * params->gain_b);
    tt_error_requantizer requantizer = tt_error_begin(tt_error_limit(*io->range, weights.unit),
                                                      tt_stream_key(step, params->stream));
    for (uint32_t i = 0; i < params->count; i++) {
        io->sum[i] = tt_error_next(&requantizer, io->a[i] * weights.a + io->b[i] * weights.b);
    }
    *io->sum_scale = tt_error_scale(&requantizer, weights.unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, weights.unit, step);
}

#endif
