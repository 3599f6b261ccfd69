#include "tt_dot.h"
#include "tt_dsp.h"
#include "tt_kernels.h"

/* scratch[i] = gradient of weight (o, ky, kx, i), summed over output positions. */
static void accumulate(const tt_conv2d_update_params *p, const tt_update_io *io, int32_t o,
                       int32_t ky, int32_t kx)
{
    const tt_window *w = &p->window;
    const int32_t in_c = p->trained_channels;
    for (int32_t i = 0; i < in_c; i++) {
        io->scratch[i] = 0;
    }
    for (int32_t oy = 0; oy < w->out_h; oy++) {
        const int32_t y = oy * w->stride_h - w->pad_h + ky * w->dilation_h;
        if (y < 0 || y >= w->in_h) {
            continue;
        }
        for (int32_t ox = 0; ox < w->out_w; ox++) {
            const int32_t x = ox * w->stride_w - w->pad_w + kx * w->dilation_w;
            const int32_t u = io->folded[(oy * w->out_w + ox) * p->out_c + o];
            if (u != 0 && x >= 0 && x < w->in_w) {
                tt_axpy_s8(io->scratch, io->input + (y * w->in_w + x) * in_c, in_c, u,
                           p->input_zero_point);
            }
        }
    }
}

void tt_conv2d_update_plain(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                            const tt_step *step)
{
    tt_updater updater = tt_update_begin(&params->rule, io, step);
    const int32_t taps = params->window.kernel_h * params->window.kernel_w;
    uint32_t index = 0;
    for (int32_t o = 0; o < params->out_c; o++) {
        const tt_step_multiplier multiplier =
            tt_step_multiplier_of(updater.base * params->rule.factors[o]);
        for (int32_t tap = 0; tap < taps; tap++) {
            accumulate(params, io, o, tap / params->window.kernel_w,
                       tap % params->window.kernel_w);
            const tt_weight_row row = {.gradient = io->scratch,
                                       .step = 1,
                                       .count = params->trained_channels,
                                       .gradient_max = params->window.out_h * params->window.out_w * (128 * 255),
                                       .multiplier = multiplier,
                                       .at = (uint32_t)((o * taps + tap) * params->in_c),
                                       .channels = params->channels,
                                       .index = index};
            tt_update_row(&updater, io, &row);
            index += params->trained_channels;
        }
    }
    tt_update_end(&updater, io);
}

#if !TT_DSP
void tt_conv2d_update(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                      const tt_step *step)
{
    tt_conv2d_update_plain(params, io, step);
}
#endif
