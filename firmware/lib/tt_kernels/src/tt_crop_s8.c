#include <string.h>

#include "tt_kernels.h"

void tt_crop_s8(const tt_crop_s8_params *params, const tt_crop_s8_io *io)
{
    const int32_t *size = params->size;
    const int32_t *begin = params->begin;
    const int32_t *n = params->cropped_size;
    int8_t *out = io->output;
    for (int32_t i = 0; i < n[0]; i++) {
        for (int32_t j = 0; j < n[1]; j++) {
            for (int32_t k = 0; k < n[2]; k++) {
                const int32_t plane = (i + begin[0]) * size[1] + j + begin[1];
                const int32_t row = plane * size[2] + k + begin[2];
                memmove(out, io->input + row * size[3] + begin[3], (size_t)n[3]);
                out += n[3];
            }
        }
    }
}
