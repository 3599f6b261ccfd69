"""Errors and weight deltas become integers without bias, and their scale says their size."""

from __future__ import annotations

import numpy as np
import pytest

from tinytrain.numeric import random
from tinytrain.numeric.error_scale import (
    DELTA_MAX,
    DELTA_MIN,
    RANGE_MAX,
    ErrorRequantizer,
    error_limit,
    next_range,
    step_multiplier,
    weight_delta,
)

RANGES = [1, 126, 127, 128, 1000, 16383, 16384, 123_456, 10_000_000, 2**29, 2**31 - 1]
F32 = np.float32


@pytest.mark.parametrize("amax", RANGES)
def test_integers_times_scale_are_the_accumulators(amax: int) -> None:
    requantizer = ErrorRequantizer.for_range(amax)
    reach = max(amax, 127)
    accumulator = np.linspace(-reach, reach, 1001).astype(np.int64)
    unit = F32(0.37)
    total = np.zeros(accumulator.size)
    draws = 400
    for key in range(draws):
        noise = random.random_bits(random.Key(random.mix32(key)), accumulator.size, 16)
        total += requantizer.apply(accumulator, noise)
    real = total / draws * float(requantizer.scale(unit))
    step = float(requantizer.scale(unit))
    deviation = (real - accumulator * float(unit)) / step
    # one draw's standard deviation is at most 1/2
    assert np.abs(deviation).max() < 5 * 0.5 / np.sqrt(draws)
    assert abs(deviation.mean()) < 0.005


@pytest.mark.parametrize("amax", RANGES)
def test_range_fills_int8(amax: int) -> None:
    requantizer = ErrorRequantizer.for_range(amax)
    ends = np.array([-max(amax, 127), max(amax, 127)], np.int64)
    half = np.full(2, 1 << 15)
    assert np.abs(requantizer.apply(ends, half)).min() >= 126
    assert np.isfinite(requantizer.scale(F32(1e-3))) and requantizer.scale(F32(1e-3)) > 0


@pytest.mark.parametrize("amax", RANGES)
@pytest.mark.parametrize("noise", [0, 65535])
def test_saturates(amax: int, noise: int) -> None:
    requantizer = ErrorRequantizer.for_range(amax)
    extremes = np.array([-(2**31), -(2**31) + 1, 2**31 - 1], np.int64)
    q = requantizer.apply(extremes, np.full(3, noise))
    if amax < 2**29:
        assert q.tolist() == [-128, -128, 127]
    assert q[0] <= -127 and q[2] >= 126


@pytest.mark.parametrize("amax", RANGES)
def test_fits_int32(amax: int) -> None:
    """What the C kernel computes in int32."""
    requantizer = ErrorRequantizer.for_range(amax)
    assert 1 <= requantizer.multiplier <= 65536
    assert 32767 * requantizer.multiplier + 65535 < 2**31
    assert requantizer.shift <= 17


def test_zero_stays_zero() -> None:
    """Masked errors must not come back as noise."""
    requantizer = ErrorRequantizer.for_range(5000)
    noise = np.arange(65536)
    assert not requantizer.apply(np.zeros(65536, np.int64), noise).any()


def test_range_follows_the_maximum_with_headroom() -> None:
    unit = F32(0.25)
    assert next_range(F32(10.0), unit, np.array([-6400, 3], np.int64)) == 1700.0
    assert next_range(F32(320.0), unit, np.array([1], np.int64)) == 310.0
    assert next_range(F32(0.0), unit, np.zeros(3, np.int64)) == 0.0
    assert next_range(F32(32.0), unit, np.zeros(0, np.int64)) == 31.0


def test_range_forgets_faster_in_calibration() -> None:
    unit = F32(2.0)
    assert next_range(F32(320.0), unit, np.array([1], np.int64), calibrating=True) == 240.0
    assert next_range(F32(320.0), unit, np.array([160], np.int64), calibrating=True) == 340.0


@pytest.mark.parametrize("unit", [1e-12, 3e-4, 1.0, 50.0])
def test_what_was_seen_fits_the_next_time(unit: float) -> None:
    """Whatever an accumulator's unit becomes, the same real errors fill int8 and fit."""
    seen = np.array([-70_000, 12, 5_000], np.int64)
    range_ = next_range(F32(0.0), F32(unit), seen)
    for finer in (1.0, 0.37, 21.0):
        limit = error_limit(range_, F32(unit / finer))
        assert limit == pytest.approx(70_000 * finer * 17 / 16, abs=1)
        half = np.full(3, 1 << 15)
        q = ErrorRequantizer.for_range(limit).apply((seen * finer).astype(np.int64), half)
        assert 118 <= np.abs(q.astype(int)).max() <= 121


def test_limit_stays_in_int32() -> None:
    assert error_limit(F32(3e38), F32(1e-30)) == RANGE_MAX
    assert error_limit(F32(1.0), F32(0.0)) == 0
    assert error_limit(F32(0.0), F32(1.0)) == 0
    assert error_limit(F32(1.0), F32(1e-8)) == pytest.approx(1e8, rel=1e-6)
    for accumulator in (2**31 - 1, -(2**31)):
        range_ = next_range(F32(0.0), F32(1e-3), np.array([accumulator], np.int64))
        assert error_limit(range_, F32(1e-3)) == RANGE_MAX


def test_range_survives_a_long_time_without_errors() -> None:
    range_ = F32(1e6)
    for _ in range(5000):
        range_ = next_range(range_, F32(1e-3), np.zeros(4, np.int64))
    # the requantizer is still sound, and the next error brings the range back
    assert 0 <= range_ < 1e-20
    assert ErrorRequantizer.for_range(error_limit(range_, F32(1e-3))).multiplier == 65536
    assert next_range(range_, F32(0.5), np.array([32], np.int64)) == 17.0


@pytest.mark.parametrize("step", [1e-30, 3e-9, 1e-4, 0.37, 1.0, 700.0, 1e20])
def test_step_multiplier_is_exact(step: float) -> None:
    multiplier, shift = step_multiplier(F32(step))
    assert 2**23 <= multiplier < 2**24
    assert multiplier * 2.0 ** (16 - shift - 16) == float(F32(step)) * 2.0**16 / 2.0**16 * 2.0**16


def test_step_of_zero() -> None:
    assert step_multiplier(F32(0.0))[0] == 0
    assert not weight_delta(np.array([-(2**31), 2**31 - 1], np.int64), F32(0.0)).any()


@pytest.mark.parametrize("step", [1e-38, 1e-20, 3e-9, 1.7e-4, 0.37, 1.0, 700.0, 1e20])
def test_weight_delta_rounds_to_nearest(step: float) -> None:
    gradient = np.array([-(2**31), -40_000, -3, -1, 0, 1, 2, 7, 12_345, 2**31 - 1], np.int64)
    exact = -gradient.astype(object) * int(float(F32(step)) * 2**200) * 2**16
    wanted = [max(DELTA_MIN, min(DELTA_MAX, (2 * e + 2**200) // 2**201)) for e in exact]
    assert weight_delta(gradient, F32(step)).tolist() == wanted


def test_weight_delta_has_no_drift() -> None:
    rng = np.random.default_rng(0)
    gradient = rng.integers(-1000, 1001, 200_000)
    step = F32(3e-6)  # a typical delta is a fraction of a Q16 unit
    exact = -gradient * float(step) * 65536
    assert abs((weight_delta(gradient, step) - exact).mean()) < 5 * 0.3 / np.sqrt(gradient.size)
