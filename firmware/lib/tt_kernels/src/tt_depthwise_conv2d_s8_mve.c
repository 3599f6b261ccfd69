#include "tt_depthwise_rows_mve.h"

#if TT_MVE

#include "tt_fixed_point.h"
#include "tt_kernels.h"

#define TT_LANES 16 /* channels made at a time */

/* Sums of eight channels: `even` of 0, 2, 4, 6 and `odd` of 1, 3, 5, 7. */
typedef struct tt_eight_sums {
    int32x4_t even, odd;
} tt_eight_sums;

/* Of sixteen channels, in the order of two tt_eight_sums. */
typedef struct tt_lanes {
    int32_t bias[TT_LANES];
    int32_t
        inside[TT_LANES]; /* the bias, less what the zero point adds where all taps are inside */
    int32_t multiplier[TT_LANES];
    int32_t rounding[TT_LANES];
    int32_t shift[TT_LANES];
    int32_t first, count; /* channels */
    bool fast;
} tt_lanes;

/* The taps of a window that are inside the input. */
typedef struct tt_tap_block {
    const int8_t *x, *w;
    int32_t rows, columns;
    int32_t x_step, w_step; /* from a tap to the next one */
    int32_t x_row, w_row;   /* from a row of taps to the next one */
} tt_tap_block;

/* Place of channel i in tt_lanes. */
static int32_t lane_of(int32_t i) { return (i & 8) + (i & 1) * 4 + (i & 7) / 2; }

static void begin_lanes(tt_lanes *lanes, const tt_depthwise_conv2d_s8_params *params,
                        const tt_depthwise_conv2d_s8_io *io, int32_t first)
{
    const int32_t taps = params->window.kernel_h * params->window.kernel_w;
    const int32_t left = params->in_c - first;
    lanes->first = first;
    lanes->count = left < TT_LANES ? left : TT_LANES;
    lanes->fast = true;
    for (int32_t i = 0; i < lanes->count; i += 4) {
        int32_t sums[4];
        const mve_pred16_t p = vctp32q((uint32_t)(lanes->count - i));
        const int8_t *w = io->weights + first + i;
        int32x4_t sum = vdupq_n_s32(0);
        for (int32_t n = 0; n < taps; n++) {
            sum = vaddq_s32(sum, vldrbq_z_s32(w, p));
            w += params->in_c;
        }
        vstrwq_s32(sums, sum);
        for (int32_t k = 0; k < 4 && i + k < lanes->count; k++) {
            const int32_t at = lane_of(i + k);
            const tt_channel c = tt_channel_of(&params->output, io->bias, first + i + k, taps);
            lanes->bias[at] = c.bias;
            lanes->inside[at] = tt_wrapping_add(c.bias, -params->input_zero_point * sums[k]);
            lanes->multiplier[at] = c.multiplier;
            lanes->rounding[at] = c.rounding;
            lanes->shift[at] = -c.right;
            lanes->fast = lanes->fast && c.fast;
        }
    }
}

static inline int32x4_t scale(const tt_lanes *lanes, int32_t at, int32x4_t sum)
{
    const int32x4_t high = vqrdmulhq_s32(sum, vldrwq_s32(lanes->multiplier + at));
    const int32x4_t rounded = vaddq_s32(high, vldrwq_s32(lanes->rounding + at));
    return vshlq_s32(vaddq_s32(rounded, vshrq_n_s32(high, 31)), vldrwq_s32(lanes->shift + at));
}

/* Channels that are not fast; apart, so that it takes no registers of the others. */
__attribute__((noinline)) static void finish_slowly(const tt_output_stage *stage,
                                                    const tt_lanes *lanes, int32_t at,
                                                    tt_eight_sums sums, int8_t *out)
{
    int32_t values[8];
    vstrwq_s32(values, sums.even);
    vstrwq_s32(values + 4, sums.odd);
    for (int32_t i = 0; i < 8 && at + i < lanes->count; i++) {
        out[at + i] = tt_requantize(stage, lanes->first + at + i, values[lane_of(i)]);
    }
}

/* Channels at to at + 7 of `lanes`, as far as there are. */
static inline void finish(const tt_depthwise_conv2d_s8_params *params, const tt_lanes *lanes,
                          int32_t at, tt_eight_sums sums, int8_t *out)
{
    const tt_output_stage *stage = &params->output;
    if (!lanes->fast) {
        finish_slowly(stage, lanes, at, sums, out);
        return;
    }
    const int32x4_t even = scale(lanes, at, sums.even);
    int16x8_t v = vqmovnbq_s32(vreinterpretq_s16_s32(even), even);
    v = vqmovntq_s32(v, scale(lanes, at + 4, sums.odd));
    v = vmaxq_s16(v, vdupq_n_s16((int16_t)stage->act_min));
    v = vminq_s16(v, vdupq_n_s16((int16_t)stage->act_max));
    vstrbq_p_s16(out + at, v, vctp16q((uint32_t)(lanes->count - at)));
}

/* Eight channels of a tap at byte `at`; a and b are their sums. */
#define TT_TAP_EIGHT(at, subtract, a, b)                                                           \
    "vldrb.s16 q0, [%[x], #" at "]\n" subtract "vldrb.s16 q1, [%[w], #" at "]\n"                   \
    "vmullb.s16 q2, q0, q1\n"                                                                      \
    "vadd.i32 %q[" a "], %q[" a "], q2\n"                                                          \
    "vmullt.s16 q2, q0, q1\n"                                                                      \
    "vadd.i32 %q[" b "], %q[" b "], q2\n"
/* A row of taps. */
#define TT_TAPS(subtract)                                                                          \
    __asm__ volatile("dls lr, %[count]\n"                                                          \
                     "1:\n" TT_TAP_EIGHT("0", subtract, "a", "b")                                  \
                         TT_TAP_EIGHT("8", subtract, "c", "d") "add %[x], %[x], %[x_step]\n"       \
                                                               "add %[w], %[w], %[w_step]\n"       \
                                                               "le lr, 1b\n"                       \
                     : [x] "+l"(x), [w] "+l"(w), [a] "+w"(low.even), [b] "+w"(low.odd),            \
                       [c] "+w"(high.even), [d] "+w"(high.odd)                                     \
                     : [count] "r"(taps->columns), [x_step] "r"(taps->x_step),                     \
                       [w_step] "r"(taps->w_step), [zero] "r"(zero_point)                          \
                     : "lr", "q0", "q1", "q2", "cc", "memory")

/* Sixteen channels of a window. */
static void sixteen(const tt_depthwise_conv2d_s8_params *params, const tt_lanes *lanes,
                    const tt_tap_block *taps, int8_t *out)
{
    const tt_window *window = &params->window;
    const bool inside = taps->rows == window->kernel_h && taps->columns == window->kernel_w;
    const int32_t *start = inside ? lanes->inside : lanes->bias;
    const int32_t zero_point = params->input_zero_point;
    tt_eight_sums low = {vldrwq_s32(start), vldrwq_s32(start + 4)};
    tt_eight_sums high = {vldrwq_s32(start + 8), vldrwq_s32(start + 12)};
    for (int32_t row = 0; row < taps->rows && taps->columns > 0; row++) {
        const int8_t *x = taps->x + row * taps->x_row;
        const int8_t *w = taps->w + row * taps->w_row;
        if (inside) {
            TT_TAPS("");
        } else {
            TT_TAPS("vsub.i16 q0, q0, %[zero]\n");
        }
    }
    finish(params, lanes, 0, low, out);
    finish(params, lanes, 8, high, out);
}

/* Fewer than sixteen channels of a window. */
static void some(const tt_depthwise_conv2d_s8_params *params, const tt_lanes *lanes,
                 const tt_tap_block *taps, int8_t *out)
{
    for (int32_t at = 0; at < lanes->count; at += 8) {
        const mve_pred16_t p = vctp16q((uint32_t)(lanes->count - at));
        tt_eight_sums sums = {vldrwq_s32(lanes->bias + at), vldrwq_s32(lanes->bias + at + 4)};
        for (int32_t row = 0; row < taps->rows; row++) {
            const int8_t *x = taps->x + row * taps->x_row + at;
            const int8_t *w = taps->w + row * taps->w_row + at;
            for (int32_t n = 0; n < taps->columns; n++) {
                const int16x8_t values =
                    vsubq_n_s16(vldrbq_z_s16(x, p), (int16_t)params->input_zero_point);
                const int16x8_t weights = vldrbq_z_s16(w, p);
                sums.even = vaddq_s32(sums.even, vmullbq_int_s16(values, weights));
                sums.odd = vaddq_s32(sums.odd, vmulltq_int_s16(values, weights));
                x += taps->x_step;
                w += taps->w_step;
            }
        }
        finish(params, lanes, at, sums, out);
    }
}

__attribute__((noinline)) static void all_windows(const tt_depthwise_conv2d_s8_params *params,
                                                  const tt_depthwise_conv2d_s8_io *io,
                                                  const tt_lanes *lanes)
{
    const tt_window *w = &params->window;
    const int32_t in_c = params->in_c;
    int8_t *out = io->output + lanes->first;
    tt_tap_block taps = {.x_step = w->dilation_w * in_c,
                         .w_step = in_c,
                         .x_row = w->dilation_h * w->in_w * in_c,
                         .w_row = w->kernel_w * in_c};
    for (int32_t oy = 0; oy < w->out_h; oy++) {
        const int32_t top = oy * w->stride_h - w->pad_h;
        const tt_taps rows = tt_valid_taps(top, w->in_h, w->kernel_h, w->dilation_h);
        taps.rows = rows.end - rows.first;
        for (int32_t ox = 0; ox < w->out_w; ox++) {
            const int32_t left = ox * w->stride_w - w->pad_w;
            const tt_taps columns = tt_valid_taps(left, w->in_w, w->kernel_w, w->dilation_w);
            const int32_t pixel =
                (top + rows.first * w->dilation_h) * w->in_w + left + columns.first * w->dilation_w;
            taps.columns = columns.end - columns.first;
            taps.x = io->input + pixel * in_c + lanes->first;
            taps.w = io->weights + (rows.first * w->kernel_w + columns.first) * in_c + lanes->first;
            if (lanes->count == TT_LANES) {
                sixteen(params, lanes, &taps, out);
            } else {
                some(params, lanes, &taps, out);
            }
            out += in_c;
        }
    }
}

/* The last group starts early where that fills it, and makes some outputs twice. */
void tt_depthwise_conv2d_s8(const tt_depthwise_conv2d_s8_params *params,
                            const tt_depthwise_conv2d_s8_io *io)
{
    const int32_t in_c = params->in_c;
    if (params->multiple != 1u) {
        tt_depthwise_conv2d_s8_plain(params, io);
        return;
    }
    tt_woven woven;
    const bool weave = tt_weave_begin(&woven, params, io);
    for (int32_t c = 0; c < in_c; c += TT_LANES) {
        const int32_t first = in_c >= TT_LANES && c > in_c - TT_LANES ? in_c - TT_LANES : c;
        woven.first = first;
        if (weave && tt_weave_channels(&woven, io)) {
            tt_woven_outputs(&woven, io);
            continue;
        }
        tt_lanes lanes = {0};
        begin_lanes(&lanes, params, io, first);
        all_windows(params, io, &lanes);
    }
}

#endif
