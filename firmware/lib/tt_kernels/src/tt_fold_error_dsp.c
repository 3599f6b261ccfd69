#include "tt_dsp.h"

#if TT_DSP

#include "tt_error.h"
#include "tt_kernels.h"
#include "tt_mask.h"

/* The tensors' places, and what the loop carries. */
typedef struct tt_fold {
    const tt_fold_error_params *params;
    const tt_fold_error_io *io;
    uint32_t key;
} tt_fold;

/* Elements whose error is 0, or cut off by the mask, become 0 whatever is drawn: the draws are made
 * by index, so they are not made at all. */
static inline int32_t fold_one(tt_error_requantizer *r, uint32_t counter, int32_t product)
{
    const uint32_t seen = (uint32_t)r->seen;
    if (__builtin_expect((uint32_t)product + seen > 2u * seen, 0)) {
        r->seen = product < 0 ? -product : product;
    }
    const uint32_t noise = tt_random_at(counter) >> 16;
    const int32_t a = tt_saturate16((product + r->half) >> r->shift);
    return tt_saturate8_asr16((int32_t)((uint32_t)(a * r->multiplier) + noise));
}

/* Whole mask bytes: eight channels at a time. */
static void fold_masked(const tt_fold *f, tt_error_requantizer *requantizer)
{
    const uint32_t channels = f->params->channels;
    const uint32_t count = f->params->positions * channels;
    const int8_t *error = f->io->error;
    const uint8_t *mask = f->io->mask;
    int8_t *result = f->io->result;
    tt_error_requantizer r = *requantizer;
    const int16_t *factor = f->params->factors;
    const int16_t *const last = factor + channels;
    for (uint32_t i = 0; i < count; i += 8u) {
        const uint32_t counter = f->key + i * TT_GOLDEN;
        uint32_t bits = *mask++;
        int8_t own[8];
        memcpy(own, error + i, sizeof own);
        memset(result + i, 0, sizeof own);
        while (bits != 0u) { /* from the highest */
            const uint32_t k = 31u - (uint32_t)__builtin_clz(bits);
            bits ^= UINT32_C(1) << k;
            const int32_t e = own[k];
            if (e != 0) {
                result[i + k] = (int8_t)fold_one(&r, counter + k * TT_GOLDEN, e * factor[k]);
            }
        }
        factor += 8;
        if (factor == last) {
            factor = f->params->factors;
        }
    }
    *requantizer = r;
}

static void fold_any(const tt_fold *f, tt_error_requantizer *requantizer)
{
    const tt_fold_error_io *io = f->io;
    const uint32_t channels = f->params->channels;
    const uint32_t count = f->params->positions * channels;
    tt_error_requantizer r = *requantizer;
    uint32_t c = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t e = io->error[i];
        int32_t folded = 0;
        if (e != 0 && tt_is_open(io->forward_output, io->mask, i, f->params->act_min,
                                 f->params->act_max)) {
            folded = fold_one(&r, f->key + i * TT_GOLDEN, e * f->params->factors[c]);
        }
        io->result[i] = (int8_t)folded;
        c++;
        c = c == channels ? 0 : c;
    }
    *requantizer = r;
}

void tt_fold_error(const tt_fold_error_params *params, const tt_fold_error_io *io,
                   const tt_step *step)
{
    const tt_fold fold = {params, io, tt_stream_key(step, params->stream)};
    const float unit = (*io->error_scale * params->gain) * 0x1p-14f;
    tt_error_requantizer requantizer = tt_error_begin(tt_error_limit(*io->range, unit), fold.key);
    if (io->mask != NULL && params->channels % 8u == 0u) {
        fold_masked(&fold, &requantizer);
    } else {
        fold_any(&fold, &requantizer);
    }
    *io->result_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}

#endif
