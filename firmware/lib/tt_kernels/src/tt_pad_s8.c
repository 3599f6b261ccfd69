#include "tt_bytes.h"
#include "tt_kernels.h"

void tt_pad_s8(const tt_pad_s8_params *params, const tt_pad_s8_io *io)
{
    const int32_t *n = params->size;
    const int32_t *before = params->before;
    const int32_t *padded = params->padded_size;
    const int8_t *in = io->input;
    const size_t total =
        (size_t)padded[0] * (size_t)padded[1] * (size_t)padded[2] * (size_t)padded[3];
    tt_fill_bytes(io->output, (int8_t)params->value, total);
    /* a row of pixels lies in one piece where no channels are added */
    const bool whole_rows = n[3] == padded[3];
    const int32_t pieces = whole_rows ? 1 : n[2];
    const size_t bytes = (size_t)(whole_rows ? n[2] * n[3] : n[3]);
    for (int32_t i = 0; i < n[0]; i++) {
        for (int32_t j = 0; j < n[1]; j++) {
            for (int32_t k = 0; k < pieces; k++) {
                const int32_t plane = (i + before[0]) * padded[1] + j + before[1];
                const int32_t row = plane * padded[2] + k + before[2];
                tt_copy_bytes(io->output + row * padded[3] + before[3], in, bytes);
                in += bytes;
            }
        }
    }
}
