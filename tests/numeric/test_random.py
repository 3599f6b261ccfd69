"""The random generator is what a scalar reference says, and uniform enough for rounding."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.tflite_writer import Array
from tinytrain.numeric.random import (
    GOLDEN,
    NEAREST,
    Key,
    mix32,
    random_bits,
    random_u32,
    stream_key,
)

COUNT = 100_000


def scalar(key: int, index: int) -> int:
    x = (key + index * GOLDEN) % 2**32
    x ^= x >> 15
    x = x * 0x2C1B3C6D % 2**32
    x ^= x >> 12
    return x * 0x297A2D39 % 2**32


def uniform(key: Key) -> Array:
    """In [-1/2, 1/2), from the 16 bits that rounding uses."""
    return random_bits(key, COUNT, 16) / 65536 - 0.5


def correlation(a: Array, b: Array) -> float:
    return float(np.mean(a * b) * 12)  # the variance of each is 1/12


LIMIT = 4.5 / np.sqrt(COUNT)


def test_equals_the_scalar_reference() -> None:
    for key in (0, 1, 0xFFFFFFFF, 0x12345678):
        drawn = random_u32(Key(key), 5, 300).tolist()
        assert drawn == [scalar(key, i) for i in range(5, 305)]
    assert random_u32(Key(7), 2**32 - 2, 1)[0] == scalar(7, 2**32 - 2)


def test_bits_are_the_high_ones() -> None:
    assert random_bits(Key(9), 50, 8).tolist() == [scalar(9, i) >> 24 for i in range(50)]
    assert random_bits(Key(9), 50, 32).tolist() == [scalar(9, i) for i in range(50)]


def test_nearest_draws_halves() -> None:
    key = stream_key(3, 70, NEAREST)
    assert set(random_u32(key, 0, 100).tolist()) == {1 << 31}
    assert set(random_bits(key, 100, 16).tolist()) == {1 << 15}


def test_mix_is_a_bijection_on_a_sample() -> None:
    assert len({mix32(i) for i in range(50_000)}) == 50_000
    assert mix32(0) == 0


def test_keys_differ() -> None:
    keys = {stream_key(s, t, k) for s in range(20) for t in range(50) for k in range(1, 40)}
    # 39,000 draws of 2^32: less than one collision is expected
    assert len(keys) >= 20 * 50 * 39 - 3


@pytest.mark.parametrize(
    "key", [*map(Key, (0, 1, 2, 0xDEADBEEF)), stream_key(0, 0, 1), stream_key(3, 70, 9)]
)
def test_mean_and_variance(key: Key) -> None:
    u = uniform(key)
    assert abs(u.mean()) < 4.5 / np.sqrt(12 * COUNT)
    assert abs(u.var() * 12 - 1) < 0.015


@pytest.mark.parametrize(
    "key", [*map(Key, (0, 1, 0xDEADBEEF)), stream_key(0, 0, 1), stream_key(3, 70, 9)]
)
def test_buckets_are_even(key: Key) -> None:
    counts = np.bincount(random_bits(key, COUNT, 6), minlength=64)
    chi2 = float(np.sum((counts - COUNT / 64) ** 2) / (COUNT / 64))
    assert chi2 < 63 + 6 * np.sqrt(2 * 63)


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 8, 16, 64, 1000])
def test_neighbours_are_independent(distance: int) -> None:
    for key in (Key(0), stream_key(0, 0, 1), stream_key(1, 5, 3)):
        u = uniform(key)
        assert abs(correlation(u[:-distance], u[distance:])) < LIMIT


def test_streams_steps_and_seeds_are_independent() -> None:
    base = uniform(stream_key(0, 10, 4))
    for other in [(0, 10, 5), (0, 11, 4), (1, 10, 4), (0, 11, 5), (1, 11, 4), (0, 9, 3)]:
        assert abs(correlation(base, uniform(stream_key(*other)))) < LIMIT, other


def test_one_element_over_steps() -> None:
    """A single weight's rounding over training: the counter is fixed, the key moves."""
    for index in (0, 1, 500):
        keys = (stream_key(0, step, 3) for step in range(20_000))
        u = np.array([scalar(key.first, index) for key in keys]) / 2**32 - 0.5
        assert abs(u.mean()) < 4.5 / np.sqrt(12 * u.size)
        assert abs(correlation(u[:-1], u[1:])) < 4.5 / np.sqrt(u.size)
