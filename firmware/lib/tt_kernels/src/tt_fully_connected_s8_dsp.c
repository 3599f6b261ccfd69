#include "tt_dsp.h"

#if TT_DSP

#include "tt_dot_dsp.h"
#include "tt_fixed_point.h"
#include "tt_kernels.h"

#define TT_BLOCK 32 /* outputs made at a time */

void tt_fully_connected_s8(const tt_fully_connected_s8_params *params,
                           const tt_fully_connected_s8_io *io)
{
    const int32_t out_c = params->out_c;
    int8_t *out = io->output;
    for (int32_t row = 0; row < params->rows; row++) {
        for (int32_t first = 0; first < out_c; first += TT_BLOCK) {
            const int32_t count = out_c - first < TT_BLOCK ? out_c - first : TT_BLOCK;
            int32_t sums[TT_BLOCK];
            for (int32_t i = 0; i < count; i++) {
                sums[i] = io->bias != NULL ? io->bias[first + i] : 0;
            }
            const tt_dot_rows_job job = {
                .x = io->input + row * params->in_c,
                .weights = io->weights + first * params->in_c,
                .terms = params->in_c,
                .outputs = count,
                .zero_point = params->input_zero_point,
                .pair_sums = params->pair_sums != NULL ? params->pair_sums + first : NULL,
                .sums = sums};
            tt_dot_rows(&job);
            for (int32_t i = 0; i < count; i++) {
                *out++ = tt_requantize(&params->output, first + i, sums[i]);
            }
        }
    }
}

#endif
