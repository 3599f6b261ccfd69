/* exp and log with a fixed sequence of operations; tinytrain/numeric/float_math.py defines them. */
#ifndef TT_FLOAT_MATH_H
#define TT_FLOAT_MATH_H

#include <string.h>

#include "tt_types.h"

#define TT_LN2_HIGH 0.693359375f
#define TT_LN2_LOW (-2.12194440e-4f)
#define TT_SQRT2 1.41421354f

static inline float tt_float_from_bits(int32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int32_t tt_bits_from_float(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* e^x for x <= 0; 0 below -87. */
static inline float tt_exp_negative(float x)
{
    if (x < -87.0f) {
        return 0.0f;
    }
    int32_t n = (int32_t)(x * 1.44269504f - 0.5f);
    const float whole = (float)n;
    const float r = (x - whole * TT_LN2_HIGH) - whole * TT_LN2_LOW;
    float y = 1.0f / 720.0f;
    y = y * r + 1.0f / 120.0f;
    y = y * r + 1.0f / 24.0f;
    y = y * r + 1.0f / 6.0f;
    y = y * r + 0.5f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
    n = n < -126 ? -126 : n;
    return y * tt_float_from_bits((n + 127) * (1 << 23));
}

/* Natural logarithm of a positive normal number. */
static inline float tt_log(float x)
{
    const int32_t bits = tt_bits_from_float(x);
    float e = (float)((bits >> 23) - 127);
    float m = tt_float_from_bits((bits & 0x7FFFFF) | (127 << 23));
    if (m > TT_SQRT2) { /* the series is short, its argument must be small */
        m *= 0.5f;
        e += 1.0f;
    }
    const float t = (m - 1.0f) / (m + 1.0f);
    const float t2 = t * t;
    float series = 1.0f / 9.0f;
    series = series * t2 + 1.0f / 7.0f;
    series = series * t2 + 1.0f / 5.0f;
    series = series * t2 + 1.0f / 3.0f;
    series = series * t2 + 1.0f;
    return (e * TT_LN2_HIGH + e * TT_LN2_LOW) + (2.0f * t) * series;
}

/* Logits to probabilities, in place; the largest is taken off first. */
static inline void tt_scores_of_logits(float *scores, int32_t classes)
{
    float largest = scores[0];
    for (int32_t c = 1; c < classes; c++) {
        largest = scores[c] > largest ? scores[c] : largest;
    }
    float sum = 0.0f;
    for (int32_t c = 0; c < classes; c++) {
        scores[c] = tt_exp_negative(scores[c] - largest);
        sum += scores[c];
    }
    for (int32_t c = 0; c < classes; c++) {
        scores[c] /= sum;
    }
}

#endif
