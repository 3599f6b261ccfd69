#include "tt_dsp.h"
#include "tt_kernels.h"

/* One position: scratch[c] += u[c] * (x[c / multiple] - zero point). */
static void accumulate_position(const tt_depthwise_conv2d_update_params *p, int32_t *scratch,
                                const int8_t *u, const int8_t *x)
{
    for (int32_t c = 0; c < p->in_c; c++) {
        const int32_t value = x[c] - p->input_zero_point;
        for (int32_t m = 0; m < p->multiple; m++) {
            scratch[c * p->multiple + m] += u[c * p->multiple + m] * value;
        }
    }
}

/* scratch[c] = gradient of weight (ky, kx, c), summed over output positions. */
static void accumulate(const tt_depthwise_conv2d_update_params *p, const tt_update_io *io,
                       int32_t ky, int32_t kx)
{
    const tt_window *w = &p->window;
    const int32_t out_c = p->in_c * p->multiple;
    for (int32_t c = 0; c < out_c; c++) {
        io->scratch[c] = 0;
    }
    for (int32_t oy = 0; oy < w->out_h; oy++) {
        const int32_t y = oy * w->stride_h - w->pad_h + ky * w->dilation_h;
        if (y < 0 || y >= w->in_h) {
            continue;
        }
        for (int32_t ox = 0; ox < w->out_w; ox++) {
            const int32_t x = ox * w->stride_w - w->pad_w + kx * w->dilation_w;
            if (x >= 0 && x < w->in_w) {
                accumulate_position(p, io->scratch, io->folded + (oy * w->out_w + ox) * out_c,
                                    io->input + (y * w->in_w + x) * p->in_c);
            }
        }
    }
}

#if TT_DSP

/* Four channels of a run of positions: products of two halves a register. */
typedef struct tt_four_sums {
    int32_t a, b, c, d;
} tt_four_sums;

static inline tt_four_sums add_run(tt_four_sums s, const int8_t *u, const int8_t *x, int32_t count,
                                   const int32_t steps[2], uint32_t offset)
{
    for (int32_t i = 0; i < count; i++) {
        const uint32_t errors = tt_load32(u);
        const uint32_t inputs = tt_load32(x);
        const uint32_t u02 = tt_extend_02(0, errors);
        const uint32_t u13 = tt_extend_13(0, errors);
        const uint32_t x02 = tt_extend_02(offset, inputs);
        const uint32_t x13 = tt_extend_13(offset, inputs);
        s.a += (int16_t)u02 * (int16_t)x02;
        s.b += (int16_t)u13 * (int16_t)x13;
        s.c += ((int32_t)u02 >> 16) * ((int32_t)x02 >> 16);
        s.d += ((int32_t)u13 >> 16) * ((int32_t)x13 >> 16);
        u += steps[0];
        x += steps[1];
    }
    return s;
}

/* Whole fours of channels of a tap; returns the channels done. */
static int32_t accumulate_fours(const tt_depthwise_conv2d_update_params *p, const tt_update_io *io,
                                int32_t ky, int32_t kx)
{
    const tt_window *w = &p->window;
    const int32_t fours = p->multiple == 1u ? p->in_c & ~3 : 0;
    const int32_t left = kx * w->dilation_w - w->pad_w;
    const int32_t stride = w->stride_w;
    const int32_t first = left < 0 ? (stride - 1 - left) / stride : 0;
    const int32_t room = w->in_w - 1 - left;
    const int32_t last = room < 0 ? -1 : room / stride; /* output column that sees the input */
    const int32_t end = last + 1 < w->out_w ? last + 1 : w->out_w;
    const int32_t steps[2] = {p->in_c, stride * p->in_c};
    const uint32_t offset = tt_both_halves(-p->input_zero_point);
    for (int32_t c = 0; c < fours; c += 4) {
        tt_four_sums s = {0, 0, 0, 0};
        for (int32_t oy = 0; oy < w->out_h; oy++) {
            const int32_t y = oy * w->stride_h - w->pad_h + ky * w->dilation_h;
            if (y >= 0 && y < w->in_h && first < end) {
                const int8_t *u = io->folded + (oy * w->out_w + first) * p->in_c + c;
                const int8_t *x = io->input + (y * w->in_w + left + first * stride) * p->in_c + c;
                s = add_run(s, u, x, end - first, steps, offset);
            }
        }
        io->scratch[c] = s.a;
        io->scratch[c + 1] = s.b;
        io->scratch[c + 2] = s.c;
        io->scratch[c + 3] = s.d;
    }
    return fours;
}

#endif

void tt_depthwise_conv2d_update(const tt_depthwise_conv2d_update_params *params,
                                const tt_depthwise_conv2d_update_io *io, const tt_step *step)
{
    tt_updater updater = tt_update_begin(&params->rule, io, step);
    const int32_t taps = params->window.kernel_h * params->window.kernel_w;
    const int32_t out_c = params->in_c * params->multiple;
    uint32_t index = 0;
    for (int32_t tap = 0; tap < taps; tap++) {
        const int32_t ky = tap / params->window.kernel_w;
        const int32_t kx = tap % params->window.kernel_w;
#if TT_DSP
        if (accumulate_fours(params, io, ky, kx) != out_c)
#endif
        {
            accumulate(params, io, ky, kx);
        }
        for (int32_t c = 0; c < out_c; c++) {
            const tt_step_multiplier multiplier =
                tt_step_multiplier_of(updater.base * params->rule.factors[c]);
            tt_update_weight(&updater, io, tt_weight_delta(io->scratch[c], multiplier), index,
                             index);
            index++;
        }
    }
    tt_update_end(&updater, io);
}
