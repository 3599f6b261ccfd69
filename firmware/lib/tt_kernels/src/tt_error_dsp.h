/* Sums to errors, strided. */
#ifndef TT_ERROR_DSP_H
#define TT_ERROR_DSP_H

#include "tt_error.h"

#if TT_DSP

/* A column of sums that becomes a column of errors. */
typedef struct tt_error_column {
    const int32_t *sums;
    int32_t sum_step; /* 1 or 2 */
    int32_t count;    /* at least one */
    int8_t *out;
    int32_t out_step;
    uint32_t index; /* of the first element in the tensor, for its random number */
} tt_error_column;

/* `key` is the counter of element 0; the requantizer's own counter is not used. */
void tt_requantize_errors(tt_error_requantizer *requantizer, uint32_t key,
                          const tt_error_column *column);

#endif

#endif
