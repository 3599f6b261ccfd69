#include "tt_mve.h"

#if TT_DSP && !TT_MVE

#include "tt_fixed_point.h"
#include "tt_kernels.h"
#include "tt_planes_dsp.h"

/* Requantizes the sums of some output rows of one channel. */
static void finish(const tt_depthwise_conv2d_s8_params *p, const tt_plane_shape *shape,
                   const tt_channel *channel, int32_t c, int32_t rows, int8_t *out)
{
    const int32_t step = p->in_c * p->multiple;
    /* rows without a rest lie one after the other, as the pixels do */
    const bool whole = shape->out_w == p->window.out_w;
    const int32_t wide = whole ? p->window.out_w * rows : p->window.out_w;
    const int32_t *sums = shape->sums;
    rows = whole ? 1 : rows;
    const tt_channel own = *channel;
    const bool fast = own.fast && p->output.act_min == -128 && p->output.act_max == 127;
    for (int32_t row = 0; row < rows; row++) {
        if (fast) {
            out = tt_requantize_column(&own, sums, wide, out, step);
        } else {
            for (int32_t i = 0; i < wide; i++) {
                *out = tt_requantize(&p->output, c, sums[i]);
                out += step;
            }
        }
        sums += shape->out_w;
    }
}

/* All output channels of the staged input channels. */
static void channels(const tt_depthwise_conv2d_s8_params *p, const tt_depthwise_conv2d_s8_io *io,
                     const tt_plane_shape *shape, int32_t first_channel, int32_t first_row)
{
    const int32_t out_c = p->in_c * p->multiple;
    const int32_t rest = p->window.out_h - first_row;
    const int32_t rows = rest < shape->band ? rest : shape->band;
    const int32_t last = first_channel + TT_PLANES < p->in_c ? first_channel + TT_PLANES : p->in_c;
    const int32_t end = last * p->multiple;
    for (int32_t c = first_channel * p->multiple; c < end; c++) {
        const tt_channel channel =
            tt_channel_of(&p->output, io->bias, c, shape->kernel * shape->kernel);
        const int32_t nth = c - first_channel * p->multiple;
        if (nth % TT_PLANES == 0 && (p->multiple != 1 || first_row == 0)) {
            const int32_t left = end - c;
            tt_pack_filters(shape, io->weights + c, out_c, left < TT_PLANES ? left : TT_PLANES,
                            false);
        }
        const tt_plane_pair pair = {shape->planes + nth / p->multiple * shape->plane,
                                    shape->filters + nth % TT_PLANES * shape->packed};
        tt_sum_plane(shape, pair, rows, channel.bias);
        finish(p, shape, &channel, c, rows, io->output + first_row * p->window.out_w * out_c + c);
    }
}

void tt_depthwise_conv2d_s8(const tt_depthwise_conv2d_s8_params *params,
                            const tt_depthwise_conv2d_s8_io *io)
{
    const tt_window *w = &params->window;
    if (params->band == 0u) {
        tt_depthwise_conv2d_s8_plain(params, io);
        return;
    }
    const tt_plane_shape shape =
        tt_plane_shape_of(w->kernel_w, w->stride_w, w->out_w, params->band, io->scratch);
    for (int32_t c = 0; c < params->in_c; c += TT_PLANES) {
        const tt_plane_source source = {.data = io->input + c,
                                        .channels = params->in_c,
                                        .height = w->in_h,
                                        .width = w->in_w,
                                        .pad_w = w->pad_w,
                                        .zero_point = params->input_zero_point};
        const int32_t left = params->in_c - c;
        for (int32_t row = 0; row < w->out_h; row += shape.band) {
            const int32_t rows = w->out_h - row < shape.band ? w->out_h - row : shape.band;
            const int32_t first = row * w->stride_h - w->pad_h;
            tt_stage_planes(&shape, &source, first,
                            first + (rows - 1) * shape.stride + shape.kernel,
                            left < TT_PLANES ? left : TT_PLANES);
            channels(params, io, &shape, c, row);
        }
    }
}

#endif
