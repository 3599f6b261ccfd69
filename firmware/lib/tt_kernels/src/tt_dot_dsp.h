/* Rows of weights times one row of inputs, on the DSP extension. */
#ifndef TT_DOT_DSP_H
#define TT_DOT_DSP_H

#include "tt_dsp.h"

#if TT_DSP

typedef struct tt_dot_rows_job {
    const int8_t *x;
    const int8_t *weights; /* of the first output */
    int32_t terms;         /* of a row */
    int32_t outputs;
    int32_t zero_point;       /* of x */
    const int32_t *pair_sums; /* of the weights, one an output; NULL: not known */
    int32_t *sums;            /* one an output, added to */
} tt_dot_rows_job;

/* sums[o] += sum of (x[i] - zero_point) * weights[o][i]
 *
 * With the sum of w[i] * w[i + 1] over pairs of terms known, one product makes two:
 *   x[i] * w[i] + x[i + 1] * w[i + 1]
 *     = (x[i] + w[i + 1]) * (x[i + 1] + w[i]) - x[i] * x[i + 1] - w[i] * w[i + 1]
 * (S. Winograd, 1968); the addition comes with the widening of the weights. All is modulo 2^32. */
void tt_dot_rows(const tt_dot_rows_job *job);

#endif

#endif
