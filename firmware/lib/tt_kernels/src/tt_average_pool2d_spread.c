#include <string.h>

#include "tt_kernels.h"
#include "tt_pool.h"

void tt_average_pool2d_spread(const tt_average_pool2d_spread_params *params,
                              const tt_average_pool2d_spread_io *io)
{
    const tt_window *w = &params->window;
    const size_t channels = (size_t)params->channels;
    int8_t *result = io->result;
    for (int32_t y = 0; y < w->in_h; y++) {
        const tt_taps rows = tt_covering(y, w->pad_h, w->kernel_h, w->stride_h, w->out_h);
        for (int32_t x = 0; x < w->in_w; x++) {
            const tt_taps columns = tt_covering(x, w->pad_w, w->kernel_w, w->stride_w, w->out_w);
            if (rows.first < rows.end && columns.first < columns.end) {
                const int32_t window = rows.first * w->out_w + columns.first;
                memcpy(result, io->error + window * params->channels, channels);
            } else {
                memset(result, 0, channels);
            }
            result += channels;
        }
    }
}
