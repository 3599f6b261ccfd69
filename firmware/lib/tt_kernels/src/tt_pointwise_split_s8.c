#include "tt_dot.h"
#include "tt_fixed_point.h"
#include "tt_kernels.h"

void tt_pointwise_split_s8(const tt_pointwise_split_s8_params *params,
                           const tt_pointwise_split_s8_io *io)
{
    const int32_t in_c = params->in_c;
    const int32_t trained_c = params->trained_channels;
    const int32_t zero_point = params->input_zero_point;
    int8_t *out = io->output;
    for (uint32_t p = 0; p < params->positions; p++) {
        const int8_t *x = io->input + p * params->in_c;
        for (int32_t i = 0; i < trained_c; i++) {
            io->scratch[i] = x[params->channels[i]];
        }
        for (int32_t c = 0; c < params->out_c; c++) {
            const int32_t bias = io->bias != NULL ? io->bias[c] : 0;
            const int32_t sum =
                tt_dot_s8(x, io->weights + c * in_c, in_c, zero_point) +
                tt_dot_s8(io->scratch, io->trained + c * trained_c, trained_c, zero_point);
            *out++ = tt_requantize(&params->output, c, tt_wrapping_add(sum, bias));
        }
    }
}
