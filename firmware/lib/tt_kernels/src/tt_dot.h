/* Inner products of the portable kernels. */
#ifndef TT_DOT_H
#define TT_DOT_H

#include "tt_types.h"

/* The factors fit 16 bits, and are typed so: compilers then pick 16x16 multiply-accumulates. */

/* sum of (x[i] - zero_point) * w[i] */
static inline int32_t tt_dot_s8(const int8_t *x, const int8_t *w, int32_t count, int32_t zero_point)
{
    const int16_t offset = (int16_t)zero_point;
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int16_t value = (int16_t)(x[i] - offset);
        const int16_t weight = w[i];
        sum += value * weight;
    }
    return sum;
}

/* accumulator[i] += factor * (x[i] - zero_point) */
static inline void tt_axpy_s8(int32_t *restrict accumulator, const int8_t *restrict x,
                              int32_t count, int32_t factor, int32_t zero_point)
{
    const int16_t offset = (int16_t)zero_point;
    const int16_t scale = (int16_t)factor;
    for (int32_t i = 0; i < count; i++) {
        const int16_t value = (int16_t)(x[i] - offset);
        accumulator[i] += scale * value;
    }
}

#endif
