/* Whether a forward output was inside its clamp bounds, from the output or from kept bits. */
#ifndef TT_MASK_H
#define TT_MASK_H

#include "tt_types.h"

static inline bool tt_is_open(const int8_t *output, const uint8_t *mask, uint32_t i,
                              int32_t act_min, int32_t act_max)
{
    if (mask != NULL) {
        return ((mask[i >> 3] >> (i & 7u)) & 1u) != 0u;
    }
    return output == NULL || (output[i] > act_min && output[i] < act_max);
}

#endif
