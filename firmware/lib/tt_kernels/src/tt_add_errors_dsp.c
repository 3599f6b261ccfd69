#include "tt_dsp.h"

#if TT_DSP

#include "tt_error_dsp.h"
#include "tt_kernels.h"

#define TT_CHUNK 64
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
    tt_error_stage stage = tt_error_stage_of(*io->range, unit, 2 * (128 << 14), step,
                                             tt_stream_key(step, params->stream));
    int32_t sums[TT_CHUNK];
    for (uint32_t first = 0; first < params->count; first += TT_CHUNK) {
        const uint32_t left = params->count - first;
        const uint32_t now = left < TT_CHUNK ? left : TT_CHUNK;
        for (uint32_t i = 0; i < now; i++) {
            sums[i] = io->a[first + i] * weight_a + io->b[first + i] * weight_b;
        }
        const tt_error_column column = {.sums = sums,
                                        .sum_step = 1,
                                        .count = (int32_t)now,
                                        .out = io->sum + first,
                                        .out_step = 1,
                                        .index = first};
        tt_requantize_errors(&stage, &column);
    }
    *io->sum_scale = tt_error_scale(&stage.plain, unit);
    *io->range = tt_error_next_range(&stage.plain, *io->range, unit, step);
}

#endif
