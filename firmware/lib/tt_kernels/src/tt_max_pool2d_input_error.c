#include "tt_error.h"
#include "tt_kernels.h"
#include "tt_pool.h"

void tt_max_pool2d_input_error(const tt_max_pool2d_input_error_params *params,
                               const tt_max_pool2d_input_error_io *io, const tt_step *step)
{
    const tt_max_pool pool = {&params->window, params->channels, io->error, io->input,
                              io->forward_output};
    const float unit = *io->error_scale * params->gain;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    int8_t *result = io->result;
    for (int32_t y = 0; y < params->window.in_h; y++) {
        for (int32_t x = 0; x < params->window.in_w; x++) {
            for (int32_t c = 0; c < params->channels; c++) {
                *result++ = tt_error_next(&requantizer, tt_routed_error(&pool, y, x, c));
            }
        }
    }
    *io->result_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}
