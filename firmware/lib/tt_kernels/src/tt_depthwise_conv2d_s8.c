#include "tt_dsp.h"
#include "tt_fixed_point.h"
#include "tt_kernels.h"

/* One tap at one position: scratch[c] += (x[c / multiple] - zero point) * f[c]. */
static void accumulate_tap(const tt_depthwise_conv2d_s8_params *p, int32_t *restrict scratch,
                           const int8_t *restrict x, const int8_t *restrict f)
{
    const int32_t zero_point = p->input_zero_point;
    if (p->multiple == 1u) {
        for (int32_t c = 0; c < p->in_c; c++) {
            scratch[c] += (x[c] - zero_point) * f[c];
        }
        return;
    }
    for (int32_t c = 0; c < p->in_c; c++) {
        const int32_t value = x[c] - zero_point;
        for (int32_t m = 0; m < p->multiple; m++) {
            scratch[c * p->multiple + m] += value * f[c * p->multiple + m];
        }
    }
}

void tt_depthwise_conv2d_s8_plain(const tt_depthwise_conv2d_s8_params *params,
                                  const tt_depthwise_conv2d_s8_io *io)
{
    const tt_window *w = &params->window;
    const int32_t out_c = params->in_c * params->multiple;
    int8_t *out = io->output;
    for (int32_t oy = 0; oy < w->out_h; oy++) {
        const int32_t top = oy * w->stride_h - w->pad_h;
        const tt_taps rows = tt_valid_taps(top, w->in_h, w->kernel_h, w->dilation_h);
        for (int32_t ox = 0; ox < w->out_w; ox++) {
            const int32_t left = ox * w->stride_w - w->pad_w;
            const tt_taps columns = tt_valid_taps(left, w->in_w, w->kernel_w, w->dilation_w);
            for (int32_t c = 0; c < out_c; c++) {
                io->scratch[c] = 0;
            }
            for (int32_t ky = rows.first; ky < rows.end; ky++) {
                for (int32_t kx = columns.first; kx < columns.end; kx++) {
                    const int32_t pixel =
                        (top + ky * w->dilation_h) * w->in_w + left + kx * w->dilation_w;
                    accumulate_tap(params, io->scratch, io->input + pixel * params->in_c,
                                   io->weights + (ky * w->kernel_w + kx) * out_c);
                }
            }
            for (int32_t c = 0; c < out_c; c++) {
                const int32_t bias = io->bias != NULL ? io->bias[c] : 0;
                *out++ = tt_requantize(&params->output, c, tt_wrapping_add(io->scratch[c], bias));
            }
        }
    }
}

#if !TT_DSP
void tt_depthwise_conv2d_s8(const tt_depthwise_conv2d_s8_params *params,
                            const tt_depthwise_conv2d_s8_io *io)
{
    tt_depthwise_conv2d_s8_plain(params, io);
}
#endif
