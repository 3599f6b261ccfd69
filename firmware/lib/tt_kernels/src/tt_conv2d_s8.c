#include "tt_dsp.h"

#if !TT_DSP

#include "tt_dot.h"
#include "tt_fixed_point.h"
#include "tt_kernels.h"

/* Sum over the taps inside the input, for the window whose first tap is at (top, left). */
static int32_t accumulate(const tt_conv2d_s8_params *p, const int8_t *input, const int8_t *filter,
                          int32_t top, int32_t left)
{
    const tt_window *w = &p->window;
    const tt_taps rows = tt_valid_taps(top, w->in_h, w->kernel_h, w->dilation_h);
    const tt_taps columns = tt_valid_taps(left, w->in_w, w->kernel_w, w->dilation_w);
    const int32_t in_c = p->in_c;
    int32_t sum = 0;
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        const int8_t *x = input + (top + ky * w->dilation_h) * w->in_w * in_c;
        const int8_t *f = filter + ky * w->kernel_w * in_c;
        if (w->dilation_w == 1u) { /* the taps of a row lie side by side */
            const int32_t count = (columns.end - columns.first) * in_c;
            if (count > 0) {
                sum += tt_dot_s8(x + (left + columns.first) * in_c, f + columns.first * in_c, count,
                                 p->input_zero_point);
            }
            continue;
        }
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            sum += tt_dot_s8(x + (left + kx * w->dilation_w) * in_c, f + kx * in_c, in_c,
                             p->input_zero_point);
        }
    }
    return sum;
}

void tt_conv2d_s8(const tt_conv2d_s8_params *params, const tt_conv2d_s8_io *io)
{
    const tt_window *w = &params->window;
    const int32_t filter_size = w->kernel_h * w->kernel_w * params->in_c;
    int8_t *out = io->output;
    for (int32_t oy = 0; oy < w->out_h; oy++) {
        const int32_t top = oy * w->stride_h - w->pad_h;
        for (int32_t ox = 0; ox < w->out_w; ox++) {
            const int32_t left = ox * w->stride_w - w->pad_w;
            const int8_t *filter = io->weights;
            for (int32_t c = 0; c < params->out_c; c++) {
                const int32_t bias = io->bias != NULL ? io->bias[c] : 0;
                const int32_t sum = accumulate(params, io->input, filter, top, left);
                *out++ = tt_requantize(&params->output, c, tt_wrapping_add(sum, bias));
                filter += filter_size;
            }
        }
    }
}

#endif
