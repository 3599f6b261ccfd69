#include <string.h>

#include "tt_kernels.h"

void tt_merge_weights(const tt_merge_weights_params *params, const tt_merge_weights_io *io)
{
    const int8_t *trained = io->trained;
    int8_t *row = io->output;
    memcpy(row, io->frozen, (size_t)params->rows * params->in_c);
    for (uint32_t r = 0; r < params->rows; r++) {
        for (uint32_t run = 0; run < params->runs; run++) {
            memcpy(row + params->starts[run], trained, params->lengths[run]);
            trained += params->lengths[run];
        }
        row += params->in_c;
    }
}
