#include "tt_error.h"
#include "tt_kernels.h"

void tt_mean_squared_error(const tt_mean_squared_error_params *params,
                           const tt_mean_squared_error_io *io, const tt_step *step)
{
    int32_t largest = 0;
    uint64_t squares = 0;
    for (uint32_t i = 0; i < params->count; i++) {
        const int32_t difference = io->output[i] - io->target[i];
        const int32_t magnitude = difference < 0 ? -difference : difference;
        largest = magnitude > largest ? magnitude : largest;
        squares += (uint32_t)(difference * difference);
    }
    tt_error_requantizer requantizer = tt_error_begin(largest, tt_stream_key(step, params->stream));
    for (uint32_t i = 0; i < params->count; i++) {
        io->error[i] = tt_error_next(&requantizer, io->output[i] - io->target[i]);
    }
    *io->first_scale = tt_error_scale(&requantizer, params->unit);
    *io->error_scale = 1.0f;
    *io->loss = (float)squares * params->loss_unit;
}
