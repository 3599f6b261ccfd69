#include "tt_dsp.h"

#if TT_DSP

#include "tt_error.h"
#include "tt_kernels.h"
#include "tt_mask.h"

/* Elements whose error is 0, or cut off by the mask, become 0 whatever is drawn: the draws are made
 * by index, so they are not made at all. */
void tt_fold_error(const tt_fold_error_params *params, const tt_fold_error_io *io,
                   const tt_step *step)
{
    const uint32_t key = tt_stream_key(step, params->stream);
    const float unit = (*io->error_scale * params->gain) * 0x1p-14f;
    tt_error_requantizer requantizer = tt_error_begin(tt_error_limit(*io->range, unit), key);
    const int16_t *const factors = params->factors;
    const int8_t *const error = io->error;
    const uint8_t *const mask = io->mask;
    int8_t *const result = io->result;
    const uint32_t channels = params->channels;
    const uint32_t count = params->positions * channels;
    uint32_t c = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t e = error[i];
        int32_t folded = 0;
        bool open = e != 0;
        if (open && mask != NULL) {
            open = ((mask[i >> 3] >> (i & 7u)) & 1u) != 0u;
        } else if (open) {
            open = tt_is_open(io->forward_output, NULL, i, params->act_min, params->act_max);
        }
        if (open) {
            requantizer.counter = key + i * TT_GOLDEN;
            folded = tt_error_next(&requantizer, e * factors[c]);
        }
        result[i] = (int8_t)folded;
        c++;
        c = c == channels ? 0 : c;
    }
    *io->result_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}

#endif
