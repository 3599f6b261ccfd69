#include "tt_dsp.h"

#if TT_DSP

#include "tt_kernels.h"
#include "tt_matmul_dsp.h"

#define TT_POINT 64 /* gradients made at a time where there is one position */

/* A tap's gradient is the product of the errors with the inputs that the tap saw, over positions:
 * both are staged along their columns, an input in `block` channels, errors in four. */
typedef struct tt_update_work {
    const tt_conv2d_update_params *params;
    const tt_update_io *io;
    uint32_t *inputs;
    uint32_t *errors;
    int32_t *sums;  /* [block][2] */
    int8_t *pixels; /* four channels of all positions; not used where a tap sees all of the input */
    int32_t positions, quads, taps;
    bool whole; /* each position sees the pixel at its place */
    tt_updater updater;
} tt_update_work;

/* What tap (ky, kx) sees of up to four channels; the zero point where it sees nothing. */
static void gather(const tt_update_work *work, int32_t tap, int32_t channel, int32_t channels)
{
    const tt_conv2d_update_params *p = work->params;
    const tt_window *w = &p->window;
    const int32_t ky = tap / w->kernel_w;
    const int32_t kx = tap - ky * w->kernel_w;
    const uint32_t nothing = (uint32_t)(uint8_t)p->input_zero_point * 0x01010101u;
    int8_t *to = work->pixels;
    for (int32_t oy = 0; oy < w->out_h; oy++) {
        const int32_t y = oy * w->stride_h - w->pad_h + ky * w->dilation_h;
        int32_t x = kx * w->dilation_w - w->pad_w;
        for (int32_t ox = 0; ox < w->out_w; ox++) {
            uint32_t word = nothing;
            if (y >= 0 && y < w->in_h && x >= 0 && x < w->in_w) {
                const int8_t *from = work->io->input + (y * w->in_w + x) * p->trained_channels;
                word = tt_load_part(from + channel, channels);
            }
            memcpy(to, &word, sizeof word);
            to += 4;
            x += w->stride_w;
        }
    }
}

static void stage_inputs(const tt_update_work *work, int32_t tap, int32_t first, int32_t end)
{
    const tt_conv2d_update_params *p = work->params;
    uint32_t *staged = work->inputs;
    for (int32_t i = first; i < end; i += 4) {
        tt_byte_columns source = {.first = work->io->input + i,
                                  .stride = p->trained_channels,
                                  .rows = work->positions,
                                  .columns = end - i < 4 ? end - i : 4,
                                  .offset = tt_both_halves(-p->input_zero_point)};
        if (!work->whole) {
            gather(work, tap, i, source.columns);
            source.first = work->pixels;
            source.stride = 4;
        }
        tt_stage_columns(staged, work->quads * TT_QUAD_WORDS, &source);
        staged += 2 * work->quads * TT_QUAD_WORDS;
    }
}

/* One or two output channels: gradients of input channels first to end, and their steps. */
static void two_channels(tt_update_work *work, const uint32_t *errors, int32_t o, int32_t tap,
                         int32_t first, int32_t end)
{
    const tt_conv2d_update_params *p = work->params;
    const tt_pair_sums_job job = {.x = work->inputs,
                                  .w = errors,
                                  .pairs = (end - first + 1) / 2,
                                  .quads = work->quads,
                                  .sums = work->sums};
    tt_multiply_pairs_s32(&job);
    for (int32_t k = 0; k < 2 && o + k < p->out_c; k++) {
        const int32_t filter_row = (o + k) * work->taps + tap;
        const bool chosen = p->channels != NULL;
        const tt_weight_row row = {
            .gradient = work->sums + k,
            .step = 2,
            .count = end - first,
            .gradient_max = work->positions * (128 * 255),
            .multiplier = tt_step_multiplier_of(work->updater.base * p->rule.factors[o + k]),
            .at = (uint32_t)(filter_row * p->in_c + (chosen ? 0 : first)),
            .channels = chosen ? p->channels + first : NULL,
            .index = (uint32_t)(filter_row * p->trained_channels + first)};
        tt_update_row(&work->updater, work->io, &row);
    }
}

/* One position, as in fully connected layers: each gradient is a single product. */
static void update_point(const tt_conv2d_update_params *p, const tt_conv2d_update_io *io,
                         const tt_step *step)
{
    tt_updater updater = tt_update_begin(&p->rule, io, step);
    const int32_t channels = p->trained_channels;
    int32_t gradient[TT_POINT];
    for (int32_t o = 0; o < p->out_c; o++) {
        const int32_t u = io->folded[o];
        const tt_step_multiplier multiplier =
            tt_step_multiplier_of(updater.base * p->rule.factors[o]);
        for (int32_t first = 0; first < channels; first += TT_POINT) {
            const int32_t count = channels - first < TT_POINT ? channels - first : TT_POINT;
            for (int32_t i = 0; i < count; i++) {
                gradient[i] = u * (io->input[first + i] - p->input_zero_point);
            }
            const bool chosen = p->channels != NULL;
            const tt_weight_row row = {.gradient = gradient,
                                       .step = 1,
                                       .count = count,
                                       .gradient_max = 128 * 255,
                                       .multiplier = multiplier,
                                       .at = (uint32_t)(o * p->in_c + (chosen ? 0 : first)),
                                       .channels = chosen ? p->channels + first : NULL,
                                       .index = (uint32_t)(o * channels + first)};
            tt_update_row(&updater, io, &row);
        }
    }
    tt_update_end(&updater, io);
}

void tt_conv2d_update(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                      const tt_step *step)
{
    const tt_window *w = &params->window;
    const int32_t block = params->block;
    if (w->in_h * w->in_w == 1 && w->kernel_h * w->kernel_w == 1) {
        update_point(params, io, step);
        return;
    }
    if (block == 0) {
        tt_conv2d_update_plain(params, io, step);
        return;
    }
    tt_update_work work = {.params = params, .io = io};
    work.positions = w->out_h * w->out_w;
    work.quads = tt_quads(work.positions);
    work.taps = w->kernel_h * w->kernel_w;
    work.whole = work.taps == 1 && w->stride_h == 1u && w->stride_w == 1u && w->pad_h == 0u &&
                 w->pad_w == 0u;
    work.inputs = (uint32_t *)(void *)io->scratch;
    work.errors = work.inputs + block / 2 * work.quads * TT_QUAD_WORDS;
    work.sums = (int32_t *)(void *)(work.errors + 2 * work.quads * TT_QUAD_WORDS);
    work.pixels = (int8_t *)(work.sums + 2 * block);
    work.updater = tt_update_begin(&params->rule, io, step);
    for (int32_t tap = 0; tap < work.taps; tap++) {
        for (int32_t i = 0; i < params->trained_channels; i += block) {
            const int32_t left = params->trained_channels - i;
            const int32_t end = i + (left < block ? left : block);
            stage_inputs(&work, tap, i, end);
            for (int32_t o = 0; o < params->out_c; o += 4) {
                const tt_byte_columns source = {.first = io->folded + o,
                                                .stride = params->out_c,
                                                .rows = work.positions,
                                                .columns =
                                                    params->out_c - o < 4 ? params->out_c - o : 4,
                                                .offset = 0};
                tt_stage_columns(work.errors, work.quads * TT_QUAD_WORDS, &source);
                two_channels(&work, work.errors, o, tap, i, end);
                if (o + 2 < params->out_c) {
                    two_channels(&work, work.errors + work.quads * TT_QUAD_WORDS, o + 2, tap, i,
                                 end);
                }
            }
        }
    }
    tt_update_end(&work.updater, io);
}

#endif
