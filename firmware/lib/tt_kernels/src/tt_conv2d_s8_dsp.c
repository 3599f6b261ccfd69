#include "tt_mve.h"

#if TT_DSP && !TT_MVE

#include "tt_bytes.h"
#include "tt_fixed_point.h"
#include "tt_kernels.h"
#include "tt_matmul_dsp.h"

/* Parts of the scratch, and sizes. */
typedef struct tt_conv_work {
    const tt_conv2d_s8_params *params;
    const tt_conv2d_s8_io *io;
    uint32_t *weights; /* two staged filters */
    uint32_t *columns; /* `block` / 2 staged pairs of windows */
    int8_t *window[2]; /* bytes of two windows; not used where one lies in one piece */
    int32_t terms, quads;
    uint32_t offset;
} tt_conv_work;

/* Short pieces one after the other, each with its bytes beyond the last whole word: the next piece
 * writes over them. Returns false where they would leave the input. */
static bool gather_inside(const tt_conv_work *work, int8_t *to, int32_t top, int32_t left)
{
    const tt_window *w = &work->params->window;
    const int32_t in_c = work->params->in_c;
    const int32_t bytes = w->kernel_w * in_c;
    const int32_t row_bytes = w->in_w * in_c;
    if (top < 0 || left < 0 || w->dilation_w != 1u || w->dilation_h != 1u ||
        left + w->kernel_w > w->in_w || top + w->kernel_h >= w->in_h) {
        return false;
    }
    const int8_t *from = work->io->input + (top * w->in_w + left) * in_c;
    for (int32_t ky = 0; ky < w->kernel_h; ky++) {
        for (int32_t i = 0; i < bytes; i += 4) {
            const uint32_t word = tt_load32(from + i);
            __asm__ volatile("str %0, [%1]" : : "r"(word), "r"(to + i) : "memory");
        }
        from += row_bytes;
        to += bytes;
    }
    return true;
}

/* The bytes of a window whose first tap is at (top, left), in the order of the weights. */
static void gather(const tt_conv_work *work, int8_t *to, int32_t top, int32_t left)
{
    const tt_window *w = &work->params->window;
    const int32_t in_c = work->params->in_c;
    const tt_taps rows = tt_valid_taps(top, w->in_h, w->kernel_h, w->dilation_h);
    const tt_taps columns = tt_valid_taps(left, w->in_w, w->kernel_w, w->dilation_w);
    const int32_t wide = columns.end - columns.first;
    if (rows.end - rows.first != w->kernel_h || wide != w->kernel_w) {
        tt_fill_bytes(to, (int8_t)work->params->input_zero_point, (size_t)work->terms);
    }
    for (int32_t ky = rows.first; ky < rows.end && wide > 0; ky++) {
        const int32_t row = (top + ky * w->dilation_h) * w->in_w;
        int8_t *at = to + (ky * w->kernel_w + columns.first) * in_c;
        const int8_t *from = work->io->input + (row + left + columns.first * w->dilation_w) * in_c;
        if (w->dilation_w == 1u) {
            tt_copy_bytes(at, from, (size_t)(wide * in_c));
            continue;
        }
        for (int32_t kx = 0; kx < wide; kx++) {
            tt_copy_bytes(at, from, (size_t)in_c);
            at += in_c;
            from += w->dilation_w * in_c;
        }
    }
}

/* The bytes of the window of output position `position`: where they are, or gathered. */
static const int8_t *window_of(const tt_conv_work *work, int32_t position, int8_t *buffer)
{
    const tt_window *w = &work->params->window;
    const int32_t oy = position / w->out_w;
    const int32_t ox = position - oy * w->out_w;
    const int32_t top = oy * w->stride_h - w->pad_h;
    const int32_t left = ox * w->stride_w - w->pad_w;
    if (w->kernel_h == 1u && w->kernel_w == 1u) {
        return work->io->input + (top * w->in_w + left) * work->params->in_c;
    }
    if (!gather_inside(work, buffer, top, left)) {
        gather(work, buffer, top, left);
    }
    return buffer;
}

static void stage_windows(const tt_conv_work *work, int32_t first, int32_t end)
{
    uint32_t *columns = work->columns;
    for (int32_t p = first; p < end; p += 2) {
        const int8_t *a = window_of(work, p, work->window[0]);
        const int8_t *b = p + 1 < end ? window_of(work, p + 1, work->window[1]) : a;
        columns = tt_stage_rows(columns, a, b, work->terms, work->offset);
    }
}

static int8_t finish(const tt_conv_work *work, const tt_channel *c, int32_t channel, int32_t sum)
{
    const tt_output_stage *stage = &work->params->output;
    if (!c->fast) {
        return tt_requantize(stage, channel, sum);
    }
    return (int8_t)tt_clamp(tt_fast_requantize(c, sum), stage->act_min, stage->act_max);
}

/* Windows first to end with output channels c0 and c1 (which may be one). */
static void two_channels(const tt_conv_work *work, int32_t first, int32_t end, int32_t c0,
                         int32_t c1)
{
    const tt_output_stage *stage = &work->params->output;
    const int32_t out_c = work->params->out_c;
    const int32_t quads = work->quads;
    const tt_channel one = tt_channel_of(stage, work->io->bias, c0, work->terms);
    const tt_channel two = tt_channel_of(stage, work->io->bias, c1, work->terms);
    const bool fast = one.fast && two.fast && stage->act_min == -128 && stage->act_max == 127;
    const uint32_t *columns = work->columns;
    int8_t *a = work->io->output + first * out_c;
    if (fast && c1 > c0 && end - first > 1) {
        const tt_pairs_job job = {.x = columns,
                                  .w = work->weights,
                                  .pairs = (end - first) / 2,
                                  .quads = quads,
                                  .out = a + c0,
                                  .out_step = out_c,
                                  .channel0 = &one,
                                  .channel1 = &two};
        tt_multiply_pairs_s8(&job);
        first += 2 * job.pairs;
        columns += job.pairs * quads * TT_QUAD_WORDS;
        a += 2 * job.pairs * out_c;
    }
    for (int32_t p = first; p < end; p += 2) {
        /* an odd window or channel out: it is made twice, and stored at one place */
        int8_t *b = p + 1 < end ? a + out_c : a;
        tt_sums sums = {one.bias, two.bias, one.bias, two.bias};
        tt_dot_2x2(&sums, columns, work->weights, quads);
        a[c0] = finish(work, &one, c0, sums.a0);
        a[c1] = finish(work, &two, c1, sums.a1);
        b[c0] = finish(work, &one, c0, sums.b0);
        b[c1] = finish(work, &two, c1, sums.b1);
        columns += quads * TT_QUAD_WORDS;
        a += 2 * out_c;
    }
}

void tt_conv2d_s8(const tt_conv2d_s8_params *params, const tt_conv2d_s8_io *io)
{
    const tt_window *w = &params->window;
    const int32_t positions = w->out_h * w->out_w;
    const int32_t out_c = params->out_c;
    tt_conv_work work = {.params = params, .io = io};
    work.terms = w->kernel_h * w->kernel_w * params->in_c;
    work.quads = tt_quads(work.terms);
    work.offset = tt_both_halves(-params->input_zero_point);
    work.weights = (uint32_t *)(void *)io->scratch;
    work.columns = work.weights + work.quads * TT_QUAD_WORDS;
    work.window[0] = (int8_t *)(work.columns + params->block / 2 * work.quads * TT_QUAD_WORDS);
    work.window[1] = work.window[0] + work.quads * 4;
    for (int32_t first = 0; first < positions; first += params->block) {
        const int32_t end = first + params->block < positions ? first + params->block : positions;
        const int8_t *filter = io->weights;
        stage_windows(&work, first, end);
        for (int32_t c = 0; c < out_c; c += 2) {
            const int32_t next = c + 1 < out_c ? c + 1 : c;
            tt_stage_rows(work.weights, filter, next > c ? filter + work.terms : filter, work.terms,
                          0);
            two_channels(&work, first, end, c, next);
            filter += 2 * work.terms;
        }
    }
}

#endif
