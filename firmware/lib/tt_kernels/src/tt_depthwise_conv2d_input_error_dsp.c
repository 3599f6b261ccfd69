#include "tt_dsp.h"

#if TT_DSP

#include "tt_error_dsp.h"
#include "tt_kernels.h"
#include "tt_planes_dsp.h"

/* The transposed convolution is a convolution of the errors, with zeros between them where the
 * stride was 2, with the filter turned by half a turn. */
typedef struct tt_depthwise_error_work {
    const tt_depthwise_conv2d_input_error_params *params;
    const tt_input_error_io *io;
    tt_plane_shape shape;
    tt_error_stage stage;
} tt_depthwise_error_work;

static void band(tt_depthwise_error_work *work, int32_t channel, int32_t first_row)
{
    const tt_depthwise_conv2d_input_error_params *p = work->params;
    const tt_plane_shape *shape = &work->shape;
    const tt_window *w = &p->window;
    const int32_t in_c = p->in_c;
    const int32_t channels = in_c - channel < TT_PLANES ? in_c - channel : TT_PLANES;
    const int32_t rows = w->in_h - first_row < shape->band ? w->in_h - first_row : shape->band;
    const tt_plane_source source = {.data = work->io->folded + channel,
                                    .channels = in_c,
                                    .height = w->out_h,
                                    .width = w->out_w,
                                    .pad_w = shape->kernel - 1 - w->pad_w};
    /* of the errors with zeros between them */
    const int32_t top = first_row - (shape->kernel - 1 - w->pad_h);
    if (shape->up == 1) {
        tt_stage_planes(shape, &source, top, top + rows + shape->kernel - 1, channels);
    } else {
        tt_stage_planes(shape, &source, (top + 1) >> 1, (top + rows + shape->kernel) >> 1,
                        channels);
    }
    for (int32_t c = 0; c < channels; c++) {
        const tt_plane_pair pair = {shape->planes + c * shape->plane,
                                    shape->filters + c * shape->packed};
        if (shape->up == 1) {
            tt_sum_plane(shape, pair, rows, 0);
        } else {
            tt_sum_plane_between(shape, pair, rows, (top & 1) != 0);
        }
        /* rows without a rest lie one after the other, as the pixels do */
        const bool whole = shape->out_w == w->in_w;
        for (int32_t row = 0; row < (whole ? 1 : rows); row++) {
            const int32_t index = (first_row + row) * w->in_w * in_c + channel + c;
            const tt_error_column column = {.sums = shape->sums + row * shape->out_w,
                                            .sum_step = 1,
                                            .count = whole ? rows * w->in_w : w->in_w,
                                            .out = work->io->error + index,
                                            .out_step = in_c,
                                            .index = (uint32_t)index};
            tt_requantize_errors(&work->stage, &column);
        }
    }
}

void tt_depthwise_conv2d_input_error(const tt_depthwise_conv2d_input_error_params *params,
                                     const tt_input_error_io *io, const tt_step *step)
{
    const tt_window *w = &params->window;
    if (params->band == 0u) {
        tt_depthwise_conv2d_input_error_plain(params, io, step);
        return;
    }
    const float unit = *io->folded_scale * params->gain;
    tt_depthwise_error_work work = {.params = params, .io = io};
    work.shape = tt_plane_shape_of(w->kernel_w, 1, w->in_w, params->band, io->scratch);
    work.shape.up = w->stride_w;
    work.stage = tt_error_stage_of(*io->range, unit, w->kernel_h * w->kernel_w * (128 * 128), step,
                                   tt_stream_key(step, params->stream));
    for (int32_t c = 0; c < params->in_c; c += TT_PLANES) {
        const int32_t left = params->in_c - c;
        tt_pack_filters(&work.shape, io->weights + c, params->in_c,
                        left < TT_PLANES ? left : TT_PLANES, true);
        for (int32_t row = 0; row < w->in_h; row += params->band) {
            band(&work, c, row);
        }
    }
    *io->error_scale = tt_error_scale(&work.stage.plain, unit);
    *io->range = tt_error_next_range(&work.stage.plain, *io->range, unit, step);
}

#endif
