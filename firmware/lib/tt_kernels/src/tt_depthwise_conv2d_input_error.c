#include "tt_dsp.h"
#include "tt_error.h"
#include "tt_kernels.h"

static void accumulate_tap(const tt_depthwise_conv2d_input_error_params *p,
                           const tt_input_error_io *io, int32_t position, int32_t tap)
{
    const int32_t out_c = p->in_c * p->multiple;
    const int8_t *u = io->folded + position * out_c;
    const int8_t *filter = io->weights + tap * out_c;
    for (int32_t c = 0; c < p->in_c; c++) {
        for (int32_t m = 0; m < p->multiple; m++) {
            io->scratch[c] += u[c * p->multiple + m] * filter[c * p->multiple + m];
        }
    }
}

static void accumulate(const tt_depthwise_conv2d_input_error_params *p, const tt_input_error_io *io,
                       int32_t y, int32_t x)
{
    const tt_window *w = &p->window;
    for (int32_t ky = 0; ky < w->kernel_h; ky++) {
        const int32_t down = y + w->pad_h - ky * w->dilation_h;
        if (down < 0 || down % w->stride_h != 0 || down / w->stride_h >= w->out_h) {
            continue;
        }
        for (int32_t kx = 0; kx < w->kernel_w; kx++) {
            const int32_t across = x + w->pad_w - kx * w->dilation_w;
            if (across < 0 || across % w->stride_w != 0 || across / w->stride_w >= w->out_w) {
                continue;
            }
            accumulate_tap(p, io, down / w->stride_h * w->out_w + across / w->stride_w,
                           ky * w->kernel_w + kx);
        }
    }
}

void tt_depthwise_conv2d_input_error_plain(const tt_depthwise_conv2d_input_error_params *params,
                                           const tt_depthwise_conv2d_input_error_io *io,
                                           const tt_step *step)
{
    const float unit = *io->folded_scale * params->gain;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    int8_t *error = io->error;
    for (int32_t y = 0; y < params->window.in_h; y++) {
        for (int32_t x = 0; x < params->window.in_w; x++) {
            for (int32_t c = 0; c < params->in_c; c++) {
                io->scratch[c] = 0;
            }
            accumulate(params, io, y, x);
            for (int32_t c = 0; c < params->in_c; c++) {
                *error++ = tt_error_next(&requantizer, io->scratch[c]);
            }
        }
    }
    *io->error_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}

#if !TT_DSP
void tt_depthwise_conv2d_input_error(const tt_depthwise_conv2d_input_error_params *params,
                                     const tt_input_error_io *io, const tt_step *step)
{
    tt_depthwise_conv2d_input_error_plain(params, io, step);
}
#endif
