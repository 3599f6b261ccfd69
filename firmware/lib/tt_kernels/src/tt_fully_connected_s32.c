#include "tt_dsp.h"

#if !TT_DSP

#include "tt_dot.h"
#include "tt_fixed_point.h"
#include "tt_kernels.h"

void tt_fully_connected_s32(const tt_fully_connected_s32_params *params,
                            const tt_fully_connected_s32_io *io)
{
    int32_t *out = io->output;
    for (int32_t row = 0; row < params->rows; row++) {
        const int8_t *x = io->input + row * params->in_c;
        for (int32_t c = 0; c < params->out_c; c++) {
            const int32_t bias = io->bias != NULL ? io->bias[c] : 0;
            const int32_t sum = tt_dot_s8(x, io->weights + c * params->in_c, params->in_c,
                                          params->input_zero_point);
            *out++ = tt_wrapping_add(sum, bias);
        }
    }
}

#endif
