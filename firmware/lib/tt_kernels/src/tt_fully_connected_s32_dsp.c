#include "tt_dsp.h"

#if TT_DSP

#include "tt_dot_dsp.h"
#include "tt_kernels.h"

void tt_fully_connected_s32(const tt_fully_connected_s32_params *params,
                            const tt_fully_connected_s32_io *io)
{
    int32_t *out = io->output;
    for (int32_t row = 0; row < params->rows; row++) {
        for (int32_t c = 0; c < params->out_c; c++) {
            out[c] = io->bias != NULL ? io->bias[c] : 0;
        }
        const tt_dot_rows_job job = {.x = io->input + row * params->in_c,
                                     .weights = io->weights,
                                     .terms = params->in_c,
                                     .outputs = params->out_c,
                                     .zero_point = params->input_zero_point,
                                     .pair_sums = params->pair_sums,
                                     .sums = out};
        tt_dot_rows(&job);
        out += params->out_c;
    }
}

#endif
