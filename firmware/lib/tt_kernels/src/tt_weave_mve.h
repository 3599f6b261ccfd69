/* Input rows and weights of a depthwise convolution, woven so that each output is one inner
 * product.
 *
 * Of sixteen channels, the input rows that a row of windows sees are woven together, column by
 * column: `lines` bytes, one a row, four or eight. A window is then kernel_w * lines bytes in one
 * piece, and the weights are laid out alike, zeros where there is no tap. Four lines hold the
 * windows of two rows of outputs where kernel_h is 3 and the stride 1: every load serves both. */
#ifndef TT_WEAVE_MVE_H
#define TT_WEAVE_MVE_H

#include "tt_mve.h"

#if TT_MVE

#include "tt_fixed_point.h"
#include "tt_kernels.h"

#define TT_WOVEN_CHANNELS 16
#define TT_WOVEN_VECTORS 4 /* at most, of a window */

/* What the outputs of a channel share. */
typedef struct tt_woven_stage {
    int32_t bias, multiplier, zero_point, shift;
} tt_woven_stage;

typedef struct tt_woven {
    const tt_depthwise_conv2d_s8_params *params;
    int8_t *planes;  /* [channel][column][line] */
    int8_t *weights; /* [channel][row of outputs][vector] */
    int32_t plane_bytes;
    int32_t lines, vectors;
    int32_t rows; /* of outputs at a time, 1 or 2 */
    int32_t columns;
    int32_t first;      /* channel */
    int8_t nothing[16]; /* the input's zero point */
    tt_woven_stage stages[TT_WOVEN_CHANNELS];
} tt_woven;

/* Whether the layer can be made this way within the scratch of every board. */
static bool tt_weave_begin(tt_woven *woven, const tt_depthwise_conv2d_s8_params *params,
                           const tt_depthwise_conv2d_s8_io *io)
{
    const tt_window *w = &params->window;
    woven->params = params;
    tt_fill_vector(woven->nothing, params->input_zero_point, 16);
    woven->lines = w->kernel_h <= 4 ? 4 : 8;
    woven->vectors = (w->kernel_w * woven->lines + 15) / 16;
    woven->rows = w->kernel_h == 3 && w->stride_h == 1 && woven->vectors == 1 ? 2 : 1;
    woven->columns = (w->out_w - 1) * w->stride_w + w->kernel_w;
    woven->plane_bytes = woven->columns * woven->lines;
    const int32_t weights = TT_WOVEN_CHANNELS * woven->rows * woven->vectors * 16;
    /* the last of four windows may begin three strides too late, and are whole vectors */
    const int32_t behind = 3 * w->stride_w * woven->lines + 16;
    woven->weights = (int8_t *)(void *)io->scratch;
    woven->planes = woven->weights + weights;
    return params->multiple == 1u && params->in_c >= TT_WOVEN_CHANNELS && w->kernel_h <= 8u &&
           woven->vectors <= TT_WOVEN_VECTORS && w->dilation_h == 1u && w->dilation_w == 1u &&
           (w->out_w + 4) * params->in_c < 65536 &&
           weights + TT_WOVEN_CHANNELS * woven->plane_bytes + behind <=
               (int32_t)params->scratch_bytes;
}

/* Where four lines of columns come from and go to; the registers of the loop in this order. */
typedef struct tt_weave_job {
    const int8_t *rows[4]; /* sixteen channels of the first column */
    int32_t steps[4];      /* to the next column; 0 where one value stands for all */
    int8_t *to[4];         /* of four channels each, at the first column */
    int32_t plane_bytes, lines;
} tt_weave_job;

__attribute__((noinline)) static void tt_weave_columns(const tt_weave_job *job, int32_t count)
{
    register const tt_weave_job *r __asm__("r0") = job;
    register int32_t n __asm__("r1") = count;
    __asm__ volatile("cmp r1, #0\n"
                     "ble 2f\n"
                     "dls lr, r1\n"
                     "ldrd r1, r12, [r0, #48]\n"
                     "movs r4, #0\n"
                     "vidup.u32 q5, r4, #1\n"
                     "vmul.i32 q5, q5, r1\n"
                     "ldrd r2, r3, [r0]\n"
                     "ldrd r4, r5, [r0, #8]\n"
                     "ldrd r6, r1, [r0, #16]\n"
                     "ldrd r7, r8, [r0, #32]\n"
                     "ldrd r9, r10, [r0, #40]\n"
                     "ldrd r11, r0, [r0, #24]\n"
                     "sub sp, sp, #64\n"
                     "1:\n"
                     "vldrb.8 q0, [r2]\n"
                     "vldrb.8 q1, [r3]\n"
                     "vldrb.8 q2, [r4]\n"
                     "vldrb.8 q3, [r5]\n"
                     "add r2, r2, r6\n"
                     "add r3, r3, r1\n"
                     "vst40.8 {q0, q1, q2, q3}, [sp]\n"
                     "vst41.8 {q0, q1, q2, q3}, [sp]\n"
                     "vst42.8 {q0, q1, q2, q3}, [sp]\n"
                     "vst43.8 {q0, q1, q2, q3}, [sp]\n"
                     "add r4, r4, r11\n"
                     "add r5, r5, r0\n"
                     "vldrw.32 q0, [sp]\n"
                     "vstrw.32 q0, [r7, q5]\n"
                     "vldrw.32 q1, [sp, #16]\n"
                     "vstrw.32 q1, [r8, q5]\n"
                     "vldrw.32 q2, [sp, #32]\n"
                     "vstrw.32 q2, [r9, q5]\n"
                     "vldrw.32 q3, [sp, #48]\n"
                     "vstrw.32 q3, [r10, q5]\n"
                     "vadd.i32 q5, q5, r12\n"
                     "le lr, 1b\n"
                     "add sp, sp, #64\n"
                     "2:\n"
                     : "+r"(r), "+r"(n)
                     :
                     : "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "lr",
                       "q0", "q1", "q2", "q3", "q5", "cc", "memory");
}

/* Columns of the input in a plane, after those of the padding at the left. */
static int32_t tt_columns_inside(const tt_woven *woven)
{
    const tt_window *w = &woven->params->window;
    const int32_t room = woven->columns - w->pad_w;
    return room < w->in_w ? room : w->in_w;
}

/* Lines `line` to line + 3 of the columns outside of the input, which never change. */
static void tt_weave_padding(const tt_woven *woven, int32_t line)
{
    const int8_t *const nothing = woven->nothing;
    const int32_t left = woven->params->window.pad_w;
    const int32_t right = left + tt_columns_inside(woven);
    tt_weave_job job = {.rows = {nothing, nothing, nothing, nothing},
                        .plane_bytes = woven->plane_bytes,
                        .lines = woven->lines};
    for (int32_t i = 0; i < 4; i++) {
        job.to[i] = woven->planes + 4 * i * woven->plane_bytes + line;
    }
    tt_weave_columns(&job, left);
    for (int32_t i = 0; i < 4; i++) {
        job.to[i] += right * woven->lines;
    }
    tt_weave_columns(&job, woven->columns - right);
}

/* Lines `line` to line + 3 of the columns inside, of input rows from `top` on. */
static void tt_weave_lines(const tt_woven *woven, const int8_t *input, int32_t top, int32_t line)
{
    const tt_depthwise_conv2d_s8_params *p = woven->params;
    const tt_window *w = &p->window;
    const int32_t step = w->in_w * p->in_c;
    tt_weave_job job = {.plane_bytes = woven->plane_bytes, .lines = woven->lines};
    int8_t *to = woven->planes + w->pad_w * woven->lines + line;
    const int8_t *row = input + (top + line) * step + woven->first;
    for (int32_t i = 0; i < 4; i++) {
        const int32_t y = top + line + i;
        const bool seen = y >= 0 && y < w->in_h;
        job.rows[i] = seen ? row : woven->nothing;
        job.steps[i] = seen ? p->in_c : 0;
        job.to[i] = to;
        to += 4 * woven->plane_bytes;
        row += step;
    }
    tt_weave_columns(&job, tt_columns_inside(woven));
}

/* Lays out the taps' lines `line` to line + 3, `shift` lines later. */
static void tt_weave_weights(const tt_woven *woven, const int8_t *weights, int32_t line,
                             int32_t shift)
{
    const tt_depthwise_conv2d_s8_params *p = woven->params;
    const tt_window *w = &p->window;
    const int8_t zeros[16] = {0};
    tt_weave_job job = {.plane_bytes = woven->rows * woven->vectors * 16, .lines = woven->lines};
    int8_t *to = woven->weights + shift * woven->vectors * 16 + line;
    for (int32_t i = 0; i < 4; i++) {
        const int32_t ky = line + i - shift;
        const bool tap = ky >= 0 && ky < w->kernel_h;
        job.rows[i] = tap ? weights + ky * w->kernel_w * p->in_c + woven->first : zeros;
        job.steps[i] = tap ? p->in_c : 0;
        job.to[i] = to + 4 * i * job.plane_bytes;
    }
    tt_weave_columns(&job, w->kernel_w);
}

/* Weights and output stages of the group's channels; false where one of them is not fast. */
static bool tt_weave_channels(tt_woven *woven, const tt_depthwise_conv2d_s8_io *io)
{
    const tt_depthwise_conv2d_s8_params *p = woven->params;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    const int32_t bytes = woven->vectors * 16;
    const int8_t *weights = woven->weights;
    tt_fill_vector(woven->weights, 0, TT_WOVEN_CHANNELS * woven->rows * bytes);
    for (int32_t line = 0; line < woven->lines; line += 4) {
        tt_weave_weights(woven, io->weights, line, 0);
    }
    if (woven->rows == 2) {
        tt_weave_weights(woven, io->weights, 0, 1);
    }
    for (int32_t i = 0; i < TT_WOVEN_CHANNELS; i++) {
        int32_t sum = 0;
        for (int32_t v = 0; v < bytes; v += 16) {
            sum = vaddvaq_s8(sum, vldrbq_s8(weights + v));
        }
        const tt_channel c = tt_channel_of(&p->output, io->bias, woven->first + i, taps);
        if (!c.fast) {
            return false;
        }
        const tt_woven_stage stage = {tt_wrapping_add(c.bias, -p->input_zero_point * sum),
                                      c.multiplier, p->output.zero_point, -c.right};
        woven->stages[i] = stage;
        weights += woven->rows * bytes;
    }
    return true;
}

#endif

#endif
