#include "tt_kernels.h"
#include "tt_pool.h"

void tt_max_pool2d_route(const tt_max_pool2d_route_params *params, const tt_max_pool2d_route_io *io)
{
    const tt_max_pool pool = {&params->window, params->channels, io->error, io->input,
                              io->forward_output};
    int8_t *result = io->result;
    for (int32_t y = 0; y < params->window.in_h; y++) {
        for (int32_t x = 0; x < params->window.in_w; x++) {
            for (int32_t c = 0; c < params->channels; c++) {
                *result++ = (int8_t)tt_routed_error(&pool, y, x, c);
            }
        }
    }
}
