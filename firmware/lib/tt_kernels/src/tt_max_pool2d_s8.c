#include "tt_kernels.h"
#include "tt_pool.h"

static int32_t largest(const tt_pool_params *p, const int8_t *input, tt_taps rows, tt_taps columns)
{
    int32_t result = -128;
    for (int32_t y = rows.first; y < rows.end; y++) {
        for (int32_t x = columns.first; x < columns.end; x++) {
            const int32_t value = input[(y * p->window.in_w + x) * p->channels];
            result = value > result ? value : result;
        }
    }
    return result;
}

void tt_max_pool2d_s8(const tt_max_pool2d_s8_params *params, const tt_max_pool2d_s8_io *io)
{
    int8_t *out = io->output;
    for (int32_t oy = 0; oy < params->window.out_h; oy++) {
        const tt_taps rows = tt_window_rows(&params->window, oy);
        for (int32_t ox = 0; ox < params->window.out_w; ox++) {
            const tt_taps columns = tt_window_columns(&params->window, ox);
            for (int32_t c = 0; c < params->channels; c++) {
                *out++ = (int8_t)tt_clamp(largest(params, io->input + c, rows, columns),
                                          params->act_min, params->act_max);
            }
        }
    }
}
