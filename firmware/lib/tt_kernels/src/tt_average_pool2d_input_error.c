#include "tt_dot.h"
#include "tt_error.h"
#include "tt_kernels.h"
#include "tt_pool.h"

/* scratch[c] = weighted sum over the windows that hold input position (y, x) */
static void accumulate(const tt_average_pool2d_input_error_params *p,
                       const tt_average_pool2d_input_error_io *io, int32_t y, int32_t x)
{
    const tt_window *w = &p->window;
    const tt_taps rows = tt_covering(y, w->pad_h, w->kernel_h, w->stride_h, w->out_h);
    const tt_taps columns = tt_covering(x, w->pad_w, w->kernel_w, w->stride_w, w->out_w);
    for (int32_t c = 0; c < p->channels; c++) {
        io->scratch[c] = 0;
    }
    for (int32_t oy = rows.first; oy < rows.end; oy++) {
        const tt_taps inside_rows = tt_window_rows(w, oy);
        for (int32_t ox = columns.first; ox < columns.end; ox++) {
            const tt_taps inside_columns = tt_window_columns(w, ox);
            const int32_t count =
                (inside_rows.end - inside_rows.first) * (inside_columns.end - inside_columns.first);
            tt_axpy_s8(io->scratch, io->error + (oy * w->out_w + ox) * p->channels, p->channels,
                       (p->numerator + count / 2) / count, 0);
        }
    }
}

void tt_average_pool2d_input_error(const tt_average_pool2d_input_error_params *params,
                                   const tt_average_pool2d_input_error_io *io, const tt_step *step)
{
    const float unit = *io->error_scale * params->gain;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    int8_t *result = io->result;
    for (int32_t y = 0; y < params->window.in_h; y++) {
        for (int32_t x = 0; x < params->window.in_w; x++) {
            accumulate(params, io, y, x);
            for (int32_t c = 0; c < params->channels; c++) {
                *result++ = tt_error_next(&requantizer, io->scratch[c]);
            }
        }
    }
    *io->result_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}
