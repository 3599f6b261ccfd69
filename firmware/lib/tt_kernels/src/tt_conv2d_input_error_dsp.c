#include "tt_dsp.h"

#if TT_DSP

#include "tt_error_dsp.h"
#include "tt_kernels.h"
#include "tt_matmul_dsp.h"

/* The product of staged errors (taps of all output channels, for `block` input positions) and
 * staged weights (the same taps, of four input channels). */
typedef struct tt_input_error_work {
    const tt_conv2d_input_error_params *params;
    const tt_input_error_io *io;
    uint32_t *weights;
    uint32_t *positions;
    int32_t *sums;       /* of two channels at all positions of a block */
    int8_t *no_error;    /* one position's errors, all 0 */
    int32_t taps, quads; /* quads of all taps */
    tt_error_stage stage;
} tt_input_error_work;

/* The folded error that input position `position` saw through a tap; zeros if none. */
static const int8_t *error_at(const tt_input_error_work *work, int32_t position, int32_t ky,
                              int32_t kx)
{
    const tt_window *w = &work->params->window;
    const int32_t y = position / w->in_w;
    const int32_t down = y + w->pad_h - ky * w->dilation_h;
    const int32_t across = position - y * w->in_w + w->pad_w - kx * w->dilation_w;
    if (down < 0 || across < 0) {
        return work->no_error;
    }
    const int32_t oy = down / w->stride_h;
    const int32_t ox = across / w->stride_w;
    if (oy >= w->out_h || ox >= w->out_w || oy * w->stride_h != down ||
        ox * w->stride_w != across) {
        return work->no_error;
    }
    return work->io->folded + (oy * w->out_w + ox) * work->params->out_c;
}

static void stage_positions(const tt_input_error_work *work, int32_t first, int32_t end)
{
    const int32_t out_c = work->params->out_c;
    uint32_t *staged = work->positions;
    for (int32_t p = first; p < end; p += 2) {
        const int32_t next = p + 1 < end ? p + 1 : p;
        for (int32_t ky = 0; ky < work->params->window.kernel_h; ky++) {
            for (int32_t kx = 0; kx < work->params->window.kernel_w; kx++) {
                staged = tt_stage_rows(staged, error_at(work, p, ky, kx),
                                       error_at(work, next, ky, kx), out_c, 0);
            }
        }
    }
}

static void stage_weights(const tt_input_error_work *work, int32_t channel, int32_t channels)
{
    const tt_conv2d_input_error_params *p = work->params;
    tt_byte_columns source = {.first = work->io->weights + channel,
                              .stride = work->taps * p->in_c,
                              .rows = p->out_c,
                              .columns = channels,
                              .offset = 0};
    for (int32_t tap = 0; tap < work->taps; tap++) {
        tt_stage_columns(work->weights + tap * tt_quads(p->out_c) * TT_QUAD_WORDS,
                         work->quads * TT_QUAD_WORDS, &source);
        source.first += p->in_c;
    }
}

/* Errors of one or two channels at positions first to end. */
static void two_channels(tt_input_error_work *work, const uint32_t *weights, int32_t first,
                         int32_t end, int32_t channel)
{
    const int32_t in_c = work->params->in_c;
    const tt_pair_sums_job job = {.x = work->positions,
                                  .w = weights,
                                  .pairs = (end - first + 1) / 2,
                                  .quads = work->quads,
                                  .sums = work->sums};
    tt_multiply_pairs_s32(&job);
    for (int32_t c = channel; c < in_c && c < channel + 2; c++) {
        const int32_t index = first * in_c + c;
        const tt_error_column column = {.sums = work->sums + (c - channel),
                                        .sum_step = 2,
                                        .count = end - first,
                                        .out = work->io->error + index,
                                        .out_step = in_c,
                                        .index = (uint32_t)index};
        tt_requantize_errors(&work->stage, &column);
    }
}

/* Up to four columns of weights, read where they are, times one position's errors. */
static void four_columns(const tt_input_error_io *io, const tt_conv2d_input_error_params *p,
                         int32_t c, int32_t sums[4])
{
    const int32_t in_c = p->in_c;
    const int32_t count = in_c - c < 4 ? in_c - c : 4;
    const int8_t *w = io->weights + c;
    int32_t a = 0;
    int32_t b = 0;
    int32_t d = 0;
    int32_t e = 0;
    for (int32_t o = 0; o < p->out_c; o += 2) {
        const bool both = o + 1 < p->out_c;
        const uint32_t top = tt_load_part(w, count);
        const uint32_t below = both ? tt_load_part(w + in_c, count) : 0;
        const uint32_t low = tt_pack_low(top, below);
        const uint32_t high = tt_pack_high(top, below);
        const uint32_t u = tt_pack_low((uint32_t)(int32_t)io->folded[o],
                                       both ? (uint32_t)(int32_t)io->folded[o + 1] : 0);
        a = tt_smlad(tt_extend_02(0, low), u, a);
        b = tt_smlad(tt_extend_13(0, low), u, b);
        d = tt_smlad(tt_extend_02(0, high), u, d);
        e = tt_smlad(tt_extend_13(0, high), u, e);
        w += 2 * in_c;
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = d;
    sums[3] = e;
}

#define TT_POINT 64 /* columns requantized at a time, a multiple of four */

/* One position, as in fully connected layers. */
static void point_error(const tt_conv2d_input_error_params *p, const tt_input_error_io *io,
                        tt_error_stage *stage)
{
    const int32_t in_c = p->in_c;
    int32_t sums[TT_POINT];
    for (int32_t first = 0; first < in_c; first += TT_POINT) {
        const int32_t end = in_c - first < TT_POINT ? in_c : first + TT_POINT;
        for (int32_t c = first; c < end; c += 4) {
            four_columns(io, p, c, sums + c - first);
        }
        const tt_error_column column = {.sums = sums,
                                        .sum_step = 1,
                                        .count = end - first,
                                        .out = io->error + first,
                                        .out_step = 1,
                                        .index = (uint32_t)first};
        tt_requantize_errors(stage, &column);
    }
}

void tt_conv2d_input_error(const tt_conv2d_input_error_params *params, const tt_input_error_io *io,
                           const tt_step *step)
{
    const tt_window *w = &params->window;
    const int32_t positions = w->in_h * w->in_w;
    const int32_t block = params->block;
    const float unit = *io->folded_scale * params->gain;
    tt_input_error_work work = {.params = params, .io = io};
    work.taps = w->kernel_h * w->kernel_w;
    work.quads = work.taps * tt_quads(params->out_c);
    work.weights = (uint32_t *)(void *)io->scratch;
    work.positions = work.weights + 2 * work.quads * TT_QUAD_WORDS;
    work.sums = (int32_t *)(void *)(work.positions + block / 2 * work.quads * TT_QUAD_WORDS);
    work.no_error = (int8_t *)(work.sums + 2 * block);
    work.stage = tt_error_stage_of(*io->range, unit, 4 * work.quads * (128 * 128), step,
                                   tt_stream_key(step, params->stream));
    memset(work.no_error, 0, params->out_c);
    if (positions == 1 && work.taps == 1) {
        point_error(params, io, &work.stage);
    }
    for (int32_t first = 0; first < positions && (positions > 1 || work.taps > 1); first += block) {
        const int32_t end = first + block < positions ? first + block : positions;
        stage_positions(&work, first, end);
        for (int32_t c = 0; c < params->in_c; c += 4) {
            const int32_t left = params->in_c - c;
            stage_weights(&work, c, left < 4 ? left : 4);
            two_channels(&work, work.weights, first, end, c);
            if (left > 2) {
                two_channels(&work, work.weights + work.quads * TT_QUAD_WORDS, first, end, c + 2);
            }
        }
    }
    *io->error_scale = tt_error_scale(&work.stage.plain, unit);
    *io->range = tt_error_next_range(&work.stage.plain, *io->range, unit, step);
}

#endif
