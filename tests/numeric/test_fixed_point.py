"""Requantization against the same rules in unbounded integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tinytrain.numeric.fixed_point import (
    INT32_MAX,
    INT32_MIN,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    round_half_away,
    rounding_divide_by_power_of_two,
    saturating_rounding_doubling_high_mul,
    wrap_int32,
)

EDGES = [INT32_MIN, INT32_MIN + 1, -(2**30), -3, -2, -1, 0, 1, 2, 3, 2**30, 2**30 + 1, INT32_MAX]


def nearest_away(value: Fraction) -> int:
    """To nearest, ties away from zero."""
    magnitude = math.floor(abs(value) + Fraction(1, 2))
    return magnitude if value >= 0 else -magnitude


def high_mul(a: int, b: int) -> int:
    """gemmlowp: (a * b + nudge) / 2^31, truncated toward zero; ties of negative ones go up."""
    if a == b == INT32_MIN:
        return INT32_MAX
    product = a * b
    total = product + (2**30 if product >= 0 else 1 - 2**30)
    return abs(total) // 2**31 * (1 if total >= 0 else -1)


def as_int64(values: list[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_high_mul() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.integers(INT32_MIN, INT32_MAX + 1, 60).tolist()
    values = EDGES + drawn
    a, b = (as_int64(list(v)) for v in zip(*((x, y) for x in values for y in values), strict=True))
    wanted = [high_mul(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert saturating_rounding_doubling_high_mul(a, b).tolist() == wanted


def test_high_mul_ties() -> None:
    # a * b is an odd multiple of 2^30: exactly half of the result's unit
    a = as_int64([2**30, -(2**30), 3 * 2**29, -3 * 2**29])
    b = as_int64([1, 1, 2, 2])
    assert saturating_rounding_doubling_high_mul(a, b).tolist() == [1, 0, 2, -1]


@pytest.mark.parametrize("exponent", [0, 1, 2, 7, 15, 30, 31])
def test_rounding_divide(exponent: int) -> None:
    unit = 1 << exponent
    near = [k * unit // 2 + d for k in range(-5, 6) for d in (-1, 0, 1)]
    values = [v for v in EDGES + near if INT32_MIN <= v <= INT32_MAX]
    found = rounding_divide_by_power_of_two(as_int64(values), np.int64(exponent))  # type: ignore[arg-type]
    assert found.tolist() == [nearest_away(Fraction(v, unit)) for v in values]


@pytest.mark.parametrize("shift", [-31, -20, -8, -1, 0, 1, 4])
def test_multiply(shift: int) -> None:
    rng = np.random.default_rng(1)
    limit = INT32_MAX >> max(shift, 0)
    values = rng.integers(-limit, limit + 1, 500).tolist() + [0, 1, -1, limit, -limit]
    for multiplier in (2**30, 2**30 + 1, 1_518_500_250, INT32_MAX):
        found = multiply_by_quantized_multiplier(as_int64(values), multiplier, shift)
        left, right = max(shift, 0), max(-shift, 0)
        wanted = [
            nearest_away(Fraction(high_mul(v << left, multiplier), 1 << right)) for v in values
        ]
        assert found.tolist() == wanted


def test_multiply_takes_one_shift_a_channel() -> None:
    values = as_int64([1000, -1000])
    found = multiply_by_quantized_multiplier(
        values, np.array([2**30, 2**30], np.int32), np.array([1, -3], np.int32)
    )
    assert found.tolist() == [1000, -63]  # 62.5 goes away from zero


@pytest.mark.parametrize(
    "real", [1e-12, 2.0**-32, 3e-9, 0.0004, 0.25, 0.5, 0.99999, 1.0, 3.7, 900.0]
)
def test_quantize_multiplier(real: float) -> None:
    multiplier, shift = quantize_multiplier(real)
    if real < 2.0**-32:
        assert (multiplier, shift) == (0, 0)
        return
    assert 2**30 <= multiplier <= INT32_MAX
    assert multiplier * 2.0 ** (shift - 31) == pytest.approx(real, rel=2.0**-30)


def test_quantize_multiplier_at_the_ends() -> None:
    assert quantize_multiplier(0.0) == (0, 0)
    assert quantize_multiplier(1.0 - 2.0**-40) == (2**30, 1)  # the significand rounds up to 1
    assert quantize_multiplier(2.0**40) == (INT32_MAX, 30)


def test_round_half_away() -> None:
    assert [round_half_away(v) for v in (0.5, -0.5, 1.5, 2.5, -2.5, 0.49)] == [1, -1, 2, 3, -3, 0]


def test_wrap() -> None:
    assert wrap_int32(as_int64([2**31, -(2**31) - 1, 2**32 + 5, -7])).tolist() == [
        INT32_MIN, INT32_MAX, 5, -7,
    ]  # fmt: skip
