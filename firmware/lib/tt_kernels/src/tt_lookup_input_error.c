#include "tt_error.h"
#include "tt_kernels.h"

void tt_lookup_input_error(const tt_lookup_input_error_params *params,
                           const tt_lookup_input_error_io *io, const tt_step *step)
{
    const float unit = *io->error_scale * params->gain;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    for (uint32_t i = 0; i < params->count; i++) {
        const int32_t slope = params->slopes[io->forward_output[i] + 128];
        io->result[i] = tt_error_next(&requantizer, io->error[i] * slope);
    }
    *io->result_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}
