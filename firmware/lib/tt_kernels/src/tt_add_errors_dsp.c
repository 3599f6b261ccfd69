#include "tt_dsp.h"

#if TT_DSP

#include "tt_error_dsp.h"
#include "tt_kernels.h"

#define TT_CHUNK 64

void tt_add_errors(const tt_add_errors_params *params, const tt_add_errors_io *io,
                   const tt_step *step)
{
    const tt_error_weights weights =
        tt_error_weights_of(*io->scale_a * params->gain_a, *io->scale_b * params->gain_b);
    tt_error_stage stage = tt_error_stage_of(*io->range, weights.unit, 2 * (128 << 14), step,
                                             tt_stream_key(step, params->stream));
    int32_t sums[TT_CHUNK];
    for (uint32_t first = 0; first < params->count; first += TT_CHUNK) {
        const uint32_t left = params->count - first;
        const uint32_t now = left < TT_CHUNK ? left : TT_CHUNK;
        for (uint32_t i = 0; i < now; i++) {
            sums[i] = io->a[first + i] * weights.a + io->b[first + i] * weights.b;
        }
        const tt_error_column column = {.sums = sums,
                                        .sum_step = 1,
                                        .count = (int32_t)now,
                                        .out = io->sum + first,
                                        .out_step = 1,
                                        .index = first};
        tt_requantize_errors(&stage, &column);
    }
    *io->sum_scale = tt_error_scale(&stage.plain, weights.unit);
    *io->range = tt_error_next_range(&stage.plain, *io->range, weights.unit, step);
}

#endif
