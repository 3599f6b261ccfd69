"""Fixed-point arithmetic of the int8 profile, vectorized; `firmware/` mirrors it once in C.

In and out: NumPy integer arrays. Follows TFLite's int8 specification: requantization is
`MultiplyByQuantizedMultiplier` with double rounding. Must not know tensors or operators.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.signedinteger[Any]]
Int64Array = npt.NDArray[np.int64]

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1


def round_half_away(value: float) -> int:
    """Round as C's `round`: halves go away from zero."""
    return int(math.floor(abs(value) + 0.5)) * (1 if value >= 0 else -1)


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Split a positive real multiplier into a Q31 significand and a shift (TFLite's rule).

    Returns:
        (multiplier, shift) with ``real ~= multiplier * 2**(shift - 31)``; (0, 0) for zero and for
        values too small to matter.
    """
    if real == 0.0:
        return 0, 0
    significand, shift = math.frexp(real)
    multiplier = round_half_away(significand * (1 << 31))
    if multiplier == 1 << 31:
        multiplier //= 2
        shift += 1
    if shift < -31:
        return 0, 0
    if shift > 30:  # saturate, as TFLite does
        return INT32_MAX, 30
    return multiplier, shift


def saturating_rounding_doubling_high_mul(a: Int64Array, b: Int64Array | np.int64) -> Int64Array:
    """High 32 bits of 2*a*b, rounded to nearest (ties away from zero), saturated (gemmlowp)."""
    product = a * b
    nudge = np.where(product >= 0, np.int64(1 << 30), np.int64(1 - (1 << 30)))
    total = product + nudge
    # C's division truncates toward zero
    result = np.where(total >= 0, total >> 31, -((-total) >> 31))
    both_min = (a == INT32_MIN) & (b == INT32_MIN)
    return np.where(both_min, np.int64(INT32_MAX), result)


def rounding_divide_by_power_of_two(value: Int64Array, exponent: Int64Array) -> Int64Array:
    """Divide by 2**exponent, to nearest with ties away from zero (gemmlowp)."""
    mask = (np.int64(1) << exponent) - 1
    remainder = value & mask
    threshold = (mask >> 1) + (value < 0)
    return (value >> exponent) + (remainder > threshold)


def multiply_by_quantized_multiplier(
    value: IntArray, multiplier: IntArray | int, shift: IntArray | int
) -> Int64Array:
    """TFLite's requantization with double rounding, broadcasting like NumPy.

    Args:
        value: int32 values (in any integer dtype).
        multiplier: Q31 significand(s).
        shift: positive to the left, negative to the right.
    """
    x = value.astype(np.int64)
    m = np.asarray(multiplier, np.int64)
    s = np.asarray(shift, np.int64)
    left = np.maximum(s, 0)
    right = np.maximum(-s, 0)
    shifted = wrap_int32(x << left)
    return rounding_divide_by_power_of_two(saturating_rounding_doubling_high_mul(shifted, m), right)


def wrap_int32(value: Int64Array) -> Int64Array:
    """The value a 32-bit register would hold."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def saturate(value: IntArray, low: int, high: int) -> IntArray:
    """Clamp to [low, high]."""
    return np.clip(value, low, high)
