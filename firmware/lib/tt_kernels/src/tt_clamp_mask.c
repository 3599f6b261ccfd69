#include "tt_dsp.h"

#if !TT_DSP

#include "tt_kernels.h"
#include "tt_mask.h"

void tt_clamp_mask(const tt_clamp_mask_params *params, const tt_clamp_mask_io *io)
{
    for (uint32_t first = 0; first < params->count; first += 8u) {
        uint32_t bits = 0;
        for (uint32_t i = first; i < first + 8u && i < params->count; i++) {
            if (tt_is_open(io->input, NULL, i, params->act_min, params->act_max)) {
                bits |= UINT32_C(1) << (i & 7u);
            }
        }
        io->mask[first >> 3] = (uint8_t)bits;
    }
}

#endif
