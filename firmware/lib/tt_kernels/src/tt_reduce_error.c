#include "tt_error.h"
#include "tt_kernels.h"

static int32_t sum(const tt_reduction *r, const int8_t *error)
{
    int32_t total = 0;
    for (int32_t i = 0; i < r->reduced_outer; i++) {
        for (int32_t j = 0; j < r->reduced_inner; j++) {
            total += error[i * r->reduced_outer_stride + j * r->reduced_inner_stride];
        }
    }
    return total;
}

void tt_reduce_error(const tt_reduce_error_params *params, const tt_reduce_error_io *io,
                     const tt_step *step)
{
    const tt_reduction *r = &params->reduction;
    const float unit = *io->error_scale * params->gain;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    int8_t *result = io->result;
    for (int32_t i = 0; i < r->kept_outer; i++) {
        for (int32_t j = 0; j < r->kept_inner; j++) {
            const int8_t *first = io->error + i * r->kept_outer_stride + j * r->kept_inner_stride;
            *result++ = tt_error_next(&requantizer, sum(r, first));
        }
    }
    *io->result_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}
