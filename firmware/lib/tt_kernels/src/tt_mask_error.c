#include "tt_dsp.h"

#if !TT_DSP

#include "tt_kernels.h"
#include "tt_mask.h"

void tt_mask_error(const tt_mask_error_params *params, const tt_mask_error_io *io)
{
    for (uint32_t i = 0; i < params->count; i++) {
        const bool open =
            tt_is_open(io->forward_output, io->mask, i, params->act_min, params->act_max);
        io->result[i] = open ? io->error[i] : 0;
    }
}

#endif
