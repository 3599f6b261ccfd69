#include "tt_error.h"
#include "tt_kernels.h"

static int32_t probability(const int8_t *output, int32_t c) { return output[c] + 128; }

static int32_t dot(const int8_t *error, const int8_t *output, int32_t depth)
{
    int32_t sum = 0;
    for (int32_t c = 0; c < depth; c++) {
        sum += error[c] * probability(output, c);
    }
    return sum;
}

static int32_t largest_magnitude(const int8_t *error, const int8_t *output, int32_t depth)
{
    const int32_t mean = dot(error, output, depth);
    int32_t largest = 0;
    for (int32_t c = 0; c < depth; c++) {
        const int32_t value = probability(output, c) * (256 * error[c] - mean);
        const int32_t magnitude = value < 0 ? -value : value;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

void tt_softmax_input_error(const tt_softmax_input_error_params *params,
                            const tt_softmax_input_error_io *io, const tt_step *step)
{
    const int32_t depth = params->depth;
    int32_t range = 0;
    for (int32_t row = 0; row < params->rows; row++) {
        const int32_t largest =
            largest_magnitude(io->error + row * depth, io->forward_output + row * depth, depth);
        range = largest > range ? largest : range;
    }
    tt_error_requantizer requantizer = tt_error_begin(range, tt_stream_key(step, params->stream));
    for (int32_t row = 0; row < params->rows; row++) {
        const int8_t *error = io->error + row * depth;
        const int8_t *output = io->forward_output + row * depth;
        const int32_t mean = dot(error, output, depth);
        for (int32_t c = 0; c < depth; c++) {
            io->result[row * depth + c] =
                tt_error_next(&requantizer, probability(output, c) * (256 * error[c] - mean));
        }
    }
    *io->result_scale = tt_error_scale(&requantizer, *io->error_scale * params->gain);
}
