#include "tt_dsp.h"

#if !TT_DSP

#include "tt_error.h"
#include "tt_kernels.h"
#include "tt_mask.h"

void tt_fold_error(const tt_fold_error_params *params, const tt_fold_error_io *io,
                   const tt_step *step)
{
    const float unit = (*io->error_scale * params->gain) * 0x1p-14f;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    uint32_t i = 0;
    for (uint32_t p = 0; p < params->positions; p++) {
        for (int32_t c = 0; c < params->channels; c++) {
            const bool open =
                tt_is_open(io->forward_output, io->mask, i, params->act_min, params->act_max);
            const int32_t product = open ? io->error[i] * params->factors[c] : 0;
            io->result[i] = tt_error_next(&requantizer, product);
            i++;
        }
    }
    *io->result_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}

#endif
