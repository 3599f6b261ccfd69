#include "tt_bytes.h"
#include "tt_kernels.h"

void tt_concatenation_s8(const tt_concatenation_s8_params *params, const tt_concatenation_s8_io *io)
{
    const int8_t *parts[TT_MAX_PARTS] = {io->input_0,  io->input_1,  io->input_2,  io->input_3,
                                         io->input_4,  io->input_5,  io->input_6,  io->input_7,
                                         io->input_8,  io->input_9,  io->input_10, io->input_11,
                                         io->input_12, io->input_13, io->input_14, io->input_15};
    int8_t *out = io->output;
    for (int32_t row = 0; row < params->outer; row++) {
        for (int32_t i = 0; i < params->parts; i++) {
            const int32_t width = params->widths[i];
            tt_copy_bytes(out, parts[i] + row * width, (size_t)width);
            out += width;
        }
    }
}
