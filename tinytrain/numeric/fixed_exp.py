"""exp and reciprocal in 32-bit fixed point, as TFLite's integer softmax computes them.

In and out: int64 arrays that hold int32 values; "Qm" has m integer bits, 31 - m fraction bits and a
sign. Source: the gemmlowp algorithms (Taylor polynomial round -1/8 with a table of exp(-2^k); three
steps of Newton-Raphson division). C: `tt_fixed_exp.h`. Must not know tensors or operators.
"""

from __future__ import annotations

import numpy as np

from tinytrain.numeric.fixed_point import (
    INT32_MAX,
    INT32_MIN,
    Int64Array,
    rounding_divide_by_power_of_two,
    saturating_rounding_doubling_high_mul,
)

DIFFERENCE_INTEGER_BITS = 5
ACCUMULATOR_INTEGER_BITS = 12

_QUARTER = 1 << 24  # 1/4 in Q5
_EXP_MINUS_EIGHTH = 1895147668  # Q0
_ONE_THIRD = 715827883  # Q0
_48_OVER_17 = 1515870810  # Q2
_MINUS_32_OVER_17 = -1010580540  # Q2
_ONE_Q2 = 1 << 29
# exp(-2^k) in Q0 for k = -2 ... 4; the bit of 2^k in Q5 is 24, 25, ...
_EXP_MINUS_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def exp_on_negative_values(x: Int64Array) -> Int64Array:
    """e**x for x <= 0 in Q5; the result is in Q0."""
    quarter = (x & (_QUARTER - 1)) - _QUARTER
    result = _exp_on_last_quarter(quarter << DIFFERENCE_INTEGER_BITS)
    remainder = quarter - x
    for k, factor in enumerate(_EXP_MINUS_POWERS):
        scaled = _mul(result, factor)
        result = np.where(remainder & (_QUARTER << k), scaled, result)
    return np.where(x == 0, np.int64(INT32_MAX), result)


def accumulator_unit(exponential: Int64Array) -> Int64Array:
    """Q0 -> Q12, in which a row of up to 4095 exponentials can be summed."""
    return _divide(exponential, ACCUMULATOR_INTEGER_BITS)


def reciprocal(total: int) -> tuple[int, int]:
    """1/total for a sum in Q12 of at least 1.

    Returns:
        (q, bits): the reciprocal is q / 2^31 / 2^bits.
    """
    headroom = 32 - int(total).bit_length()
    fraction = np.array([(int(total) << headroom) - (1 << 31)], np.int64)
    return int(_one_over_one_plus(fraction)[0]), ACCUMULATOR_INTEGER_BITS - headroom


def _exp_on_last_quarter(a: Int64Array) -> Int64Array:
    """e**a for a in [-1/4, 0), Q0."""
    x = a + (1 << 28)
    x2 = _mul(x, x)
    x3 = _mul(x2, x)
    x4 = _mul(x2, x2)
    cubic = _mul(_divide(x4, 2) + x3, _ONE_THIRD)
    series = _divide(cubic + x2, 1)
    return _EXP_MINUS_EIGHTH + _mul(x + series, _EXP_MINUS_EIGHTH)


def _one_over_one_plus(a: Int64Array) -> Int64Array:
    """1 / (1 + a) for a in [0, 1), Q0."""
    total = a + INT32_MAX
    half_denominator = (total + 1) >> 1  # total is positive: halves go up
    x = _48_OVER_17 + _mul(half_denominator, _MINUS_32_OVER_17)
    for _ in range(3):
        rest = _ONE_Q2 - _mul(half_denominator, x)
        x = x + _shift_left(_mul(x, rest), 2)
    return _shift_left(x, 1)


def _mul(a: Int64Array, b: Int64Array | int) -> Int64Array:
    return saturating_rounding_doubling_high_mul(a, np.asarray(b, np.int64))


def _divide(value: Int64Array, exponent: int) -> Int64Array:
    return rounding_divide_by_power_of_two(value, np.asarray(exponent, np.int64))


def _shift_left(value: Int64Array, bits: int) -> Int64Array:
    return np.clip(value << bits, INT32_MIN, INT32_MAX)
