/* Sums to errors at the fewest instructions: 11 an element, beside loads and the loop.
 *
 * With m = 2^(32 - shift), the high word of (sum * m), rounded, is (sum + half) >> shift; with the
 * multiplier moved up by 16 bits and the whole draw below it, the high word of the 64-bit product
 * is the error itself. Nothing saturates and no magnitude is taken: the square of each error is
 * added to `guard`, which overflows, and so sets the sticky flag Q, where the error may have been
 * cut off or may raise the range. Such a column is made again by the plain code. It is rare:
 * `seen` starts at what the range of the next step has anyway. */
#ifndef TT_ERROR_DSP_H
#define TT_ERROR_DSP_H

#include "tt_error.h"

#if TT_DSP

typedef struct tt_error_stage {
    tt_error_requantizer plain; /* `counter` is set by each column */
    tt_key key;
    int32_t scale;      /* m, for sums shifted to the left by `lift` */
    int32_t lift;       /* 2 where the shift is less than 2 */
    int32_t multiplier; /* Q16 */
    int32_t guard;
    bool possible; /* the shortcut holds for all sums within the bound */
    bool fast;     /* and now */
} tt_error_stage;

/* `bound`: largest magnitude that a sum can have. */
tt_error_stage tt_error_stage_of(float range, float unit, int32_t bound, const tt_step *step,
                                 tt_key key);

/* Elements whose sums may exceed what was seen have been made: the guard follows. */
void tt_error_stage_follow(tt_error_stage *stage);

/* A column of sums that becomes a column of errors. */
typedef struct tt_error_column {
    const int32_t *sums;
    int32_t sum_step; /* 1 or 2 */
    int32_t count;    /* at least one */
    int8_t *out;
    int32_t out_step;
    uint32_t index; /* of the first element in the tensor, for its random number */
} tt_error_column;

void tt_requantize_errors(tt_error_stage *stage, const tt_error_column *column);

/* Errors times factors of Q14, `count` that stand side by side, to errors; not in place. */
typedef struct tt_error_products {
    const int8_t *errors;
    const int16_t *factors;
    int32_t count;
    int8_t *out;
    uint32_t index;
} tt_error_products;

void tt_requantize_products(tt_error_stage *stage, const tt_error_products *products);

#endif

#endif
