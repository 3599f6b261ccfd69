#include "tt_dot.h"
#include "tt_error.h"
#include "tt_kernels.h"

/* Sums of one position: of all input channels, then of the trained ones, which are added. */
static void accumulate(const tt_pointwise_split_input_error_params *p,
                       const tt_pointwise_split_input_error_io *io, const int8_t *u)
{
    const int32_t in_c = p->in_c;
    const int32_t trained_c = p->trained_channels;
    int32_t *trained_sums = io->scratch + in_c;
    for (int32_t i = 0; i < in_c + trained_c; i++) {
        io->scratch[i] = 0;
    }
    for (int32_t o = 0; o < p->out_c; o++) {
        if (u[o] != 0) {
            tt_axpy_s8(io->scratch, io->weights + o * in_c, in_c, u[o], 0);
            tt_axpy_s8(trained_sums, io->trained + o * trained_c, trained_c, u[o], 0);
        }
    }
    for (int32_t i = 0; i < trained_c; i++) {
        io->scratch[p->channels[i]] += trained_sums[i];
    }
}

void tt_pointwise_split_input_error(const tt_pointwise_split_input_error_params *params,
                                    const tt_pointwise_split_input_error_io *io,
                                    const tt_step *step)
{
    const float unit = *io->folded_scale * params->gain;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    int8_t *error = io->error;
    for (uint32_t p = 0; p < params->positions; p++) {
        accumulate(params, io, io->folded + p * params->out_c);
        for (int32_t c = 0; c < params->in_c; c++) {
            *error++ = tt_error_next(&requantizer, io->scratch[c]);
        }
    }
    *io->error_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}
