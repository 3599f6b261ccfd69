#include "tt_kernels.h"

void tt_gather_channels(const tt_gather_channels_params *params, const tt_gather_channels_io *io)
{
    int8_t *out = io->output;
    for (uint32_t p = 0; p < params->positions; p++) {
        const int8_t *x = io->input + p * params->in_c;
        for (int32_t c = 0; c < params->out_c; c++) {
            *out++ = x[params->channels[c]];
        }
    }
}
