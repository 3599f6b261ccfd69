/* exp and reciprocal in fixed point; tinytrain/numeric/fixed_exp.py defines them.
 * "Qm": m integer bits, 31 - m fraction bits, a sign. */
#ifndef TT_FIXED_EXP_H
#define TT_FIXED_EXP_H

#include "tt_fixed_point.h"

#define TT_ACCUMULATOR_INTEGER_BITS 12

static inline int32_t tt_saturating_shift_left(int32_t value, int32_t bits)
{
    const int64_t shifted = (int64_t)value * (INT64_C(1) << bits);
    if (shifted > INT32_MAX) {
        return INT32_MAX;
    }
    return shifted < INT32_MIN ? INT32_MIN : (int32_t)shifted;
}

/* e^a for a in [-1/4, 0), Q0 */
static inline int32_t tt_exp_on_last_quarter(int32_t a)
{
    const int32_t exp_minus_eighth = 1895147668;
    const int32_t one_third = 715827883;
    const int32_t x = a + (1 << 28);
    const int32_t x2 = tt_saturating_rounding_doubling_high_mul(x, x);
    const int32_t x3 = tt_saturating_rounding_doubling_high_mul(x2, x);
    const int32_t x4 = tt_saturating_rounding_doubling_high_mul(x2, x2);
    const int32_t cubic = tt_saturating_rounding_doubling_high_mul(
        tt_rounding_divide_by_power_of_two(x4, 2) + x3, one_third);
    const int32_t series = tt_rounding_divide_by_power_of_two(cubic + x2, 1);
    return exp_minus_eighth +
           tt_saturating_rounding_doubling_high_mul(exp_minus_eighth, x + series);
}

/* e^x for x <= 0 in Q5; the result is in Q0 */
static inline int32_t tt_exp_on_negative_values(int32_t x)
{
    /* exp(-2^k) in Q0 for k = -2 ... 4 */
    static const int32_t exp_minus_powers[7] = {1672461947, 1302514674, 790015084, 290630308,
                                                39332535,   720401,     242};
    const int32_t one_quarter = 1 << 24;
    if (x == 0) {
        return INT32_MAX;
    }
    const int32_t quarter = (x & (one_quarter - 1)) - one_quarter;
    const int32_t remainder = quarter - x;
    int32_t result = tt_exp_on_last_quarter(quarter * 32);
    for (int32_t k = 0; k < 7; k++) {
        if ((remainder & (one_quarter << k)) != 0) {
            result = tt_saturating_rounding_doubling_high_mul(result, exp_minus_powers[k]);
        }
    }
    return result;
}

/* 1 / (1 + a) for a in [0, 1), Q0 */
static inline int32_t tt_one_over_one_plus(int32_t a)
{
    const int32_t two_to_29 = 1 << 29;
    const int32_t half_denominator = (int32_t)(((int64_t)a + INT32_MAX + 1) >> 1);
    int32_t x =
        1515870810 + tt_saturating_rounding_doubling_high_mul(half_denominator, -1010580540);
    for (int32_t i = 0; i < 3; i++) {
        const int32_t rest =
            two_to_29 - tt_saturating_rounding_doubling_high_mul(half_denominator, x);
        x += tt_saturating_shift_left(tt_saturating_rounding_doubling_high_mul(x, rest), 2);
    }
    return tt_saturating_shift_left(x, 1);
}

/* Leading zeros of a positive number. */
static inline int32_t tt_leading_zeros(uint32_t value)
{
    int32_t zeros = 0;
    while ((value & UINT32_C(0x80000000)) == 0u) {
        value <<= 1;
        zeros++;
    }
    return zeros;
}

/* 1/total for a sum in Q12 of at least 1: result / 2^31 / 2^bits */
static inline int32_t tt_reciprocal(int32_t total, int32_t *bits)
{
    const int32_t headroom = tt_leading_zeros((uint32_t)total);
    const uint32_t fraction = ((uint32_t)total << (uint32_t)headroom) - UINT32_C(0x80000000);
    *bits = TT_ACCUMULATOR_INTEGER_BITS - headroom;
    return tt_one_over_one_plus((int32_t)fraction);
}

#endif
