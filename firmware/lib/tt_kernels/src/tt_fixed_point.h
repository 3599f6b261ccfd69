/* Fixed-point arithmetic of the profile tt.int8.v1; tinytrain/numeric/fixed_point.py defines it. */
#ifndef TT_FIXED_POINT_H
#define TT_FIXED_POINT_H

#include "tt_types.h"

/* Sum modulo 2^32, as the accumulators of TFLite's kernels behave. */
static inline int32_t tt_wrapping_add(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* High 32 bits of 2*a*b, to nearest with ties away from zero, saturated. */
static inline int32_t tt_saturating_rounding_doubling_high_mul(int32_t a, int32_t b)
{
    if (a == INT32_MIN && b == INT32_MIN) {
        return INT32_MAX;
    }
    const int64_t product = (int64_t)a * b;
    const int64_t nudge = product >= 0 ? (INT64_C(1) << 30) : 1 - (INT64_C(1) << 30);
    return (int32_t)((product + nudge) / (INT64_C(1) << 31));
}

/* value / 2^exponent, to nearest with ties away from zero; 0 <= exponent <= 31. */
static inline int32_t tt_rounding_divide_by_power_of_two(int32_t value, int32_t exponent)
{
    const int32_t mask = (int32_t)((UINT32_C(1) << (uint32_t)exponent) - 1u);
    const int32_t remainder = value & mask;
    const int32_t threshold = (mask >> 1) + (value < 0 ? 1 : 0);
    return (value >> exponent) + (remainder > threshold ? 1 : 0);
}

/* TFLite's MultiplyByQuantizedMultiplier with double rounding; -31 <= shift <= 30. */
static inline int32_t tt_multiply_by_quantized_multiplier(int32_t value, int32_t multiplier,
                                                          int32_t shift)
{
    const uint32_t left = shift > 0 ? (uint32_t)shift : 0u;
    const int32_t right = shift > 0 ? 0 : -shift;
    const int32_t shifted = (int32_t)((uint32_t)value << left);
    return tt_rounding_divide_by_power_of_two(
        tt_saturating_rounding_doubling_high_mul(shifted, multiplier), right);
}

/* Accumulator of output channel c -> int8. */
static inline int8_t tt_requantize(const tt_output_stage *stage, int32_t c, int32_t accumulator)
{
    const int32_t scaled =
        tt_multiply_by_quantized_multiplier(accumulator, stage->multiplier[c], stage->shift[c]);
    return (int8_t)tt_clamp(tt_wrapping_add(scaled, stage->zero_point), stage->act_min,
                            stage->act_max);
}

#endif
