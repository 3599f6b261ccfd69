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

void tt_depthwise_conv2d_update(const tt_depthwise_conv2d_update_params *params,
                                const tt_depthwise_conv2d_update_io *io, const tt_step *step)
{
    tt_updater updater = tt_update_begin(&params->rule, io, step);
    const int32_t taps = params->window.kernel_h * params->window.kernel_w;
    const int32_t out_c = params->in_c * params->multiple;
    uint32_t index = 0;
    for (int32_t tap = 0; tap < taps; tap++) {
        accumulate(params, io, tap / params->window.kernel_w, tap % params->window.kernel_w);
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
