#include "tt_dsp.h"

#if TT_DSP

#include "tt_error_dsp.h"
#include "tt_kernels.h"
#include "tt_mask.h"

#define TT_CHUNK 128
#define TT_PRODUCT_MAX (128 << 14)

/* Elements `first` to `first` + `count` of the errors, masked. */
static void mask_chunk(const tt_fold_error_params *p, const tt_fold_error_io *io, uint32_t first,
                       uint32_t count, int8_t *to)
{
    if (io->mask != NULL && (first & 7u) == 0u && (count & 7u) == 0u) {
        const uint8_t *mask = io->mask + first / 8u;
        for (uint32_t i = 0; i < count; i += 8u) {
            const int8_t *from = io->error + first + i;
            const uint32_t bits = *mask++;
            const uint32_t words[2] = {tt_keep_bytes(tt_load32(from), bits),
                                       tt_keep_bytes(tt_load32(from + 4), bits >> 4)};
            memcpy(to + i, words, sizeof words);
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const bool open =
            tt_is_open(io->forward_output, io->mask, first + i, p->act_min, p->act_max);
        to[i] = open ? io->error[first + i] : 0;
    }
}

void tt_fold_error(const tt_fold_error_params *params, const tt_fold_error_io *io,
                   const tt_step *step)
{
    const uint32_t channels = params->channels;
    const uint32_t count = params->positions * channels;
    const float unit = (*io->error_scale * params->gain) * 0x1p-14f;
    tt_error_stage stage = tt_error_stage_of(*io->range, unit, TT_PRODUCT_MAX, step,
                                             tt_stream_key(step, params->stream));
    int8_t chunk[TT_CHUNK] __attribute__((aligned(4)));
    for (uint32_t pixel = 0; pixel < count; pixel += channels) {
        for (uint32_t c = 0; c < channels; c += TT_CHUNK) {
            const uint32_t now = channels - c < TT_CHUNK ? channels - c : TT_CHUNK;
            mask_chunk(params, io, pixel + c, now, chunk);
            const tt_error_products products = {.errors = chunk,
                                                .factors = params->factors + c,
                                                .count = (int32_t)now,
                                                .out = io->result + pixel + c,
                                                .index = pixel + c};
            tt_requantize_products(&stage, &products);
        }
    }
    *io->result_scale = tt_error_scale(&stage.plain, unit);
    *io->range = tt_error_next_range(&stage.plain, *io->range, unit, step);
}

#endif
