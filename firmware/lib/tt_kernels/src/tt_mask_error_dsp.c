#include "tt_dsp.h"

#if TT_DSP

#include "tt_kernels.h"
#include "tt_mask.h"

void tt_mask_error(const tt_mask_error_params *params, const tt_mask_error_io *io)
{
    const uint32_t whole = io->mask != NULL ? params->count & ~7u : 0u;
    const uint8_t *mask = io->mask;
    for (uint32_t i = 0; i < whole; i += 8u) {
        const int8_t *from = io->error + i;
        const uint32_t bits = *mask++;
        const uint32_t words[2] = {tt_keep_bytes(tt_load32(from), bits),
                                   tt_keep_bytes(tt_load32(from + 4), bits >> 4)};
        memcpy(io->result + i, words, sizeof words);
    }
    for (uint32_t i = whole; i < params->count; i++) {
        const bool open =
            tt_is_open(io->forward_output, io->mask, i, params->act_min, params->act_max);
        io->result[i] = open ? io->error[i] : 0;
    }
}

#endif
