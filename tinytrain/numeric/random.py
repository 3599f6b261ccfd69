"""The project's random generator: seeded, counter-based, integer only.

A random number is a function of (key, index) and not of the order of calls, so that a kernel may
visit its elements in any order and NumPy can draw a whole tensor at once. `firmware/` mirrors it
as `tt_random.h`. Must not know tensors or operators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

GOLDEN = 0x9E3779B9
NEAREST = 0  # the stream of what rounds to nearest: each draw of it is one half
HALF_COUNTER = 0x603E72FC  # the counter whose draw is 2^31
_MASK = 0xFFFFFFFF


def mix32(value: int) -> int:
    """A bijective 32-bit finalizer with low bias (two multiply, three xor-shift rounds)."""
    x = value & _MASK
    x ^= x >> 16
    x = (x * 0x7FEB352D) & _MASK
    x ^= x >> 15
    x = (x * 0x846CA68B) & _MASK
    return x ^ (x >> 16)


@dataclass(frozen=True)
class Key:
    """Of one operator's stream in one step: element i draws at counter first + i * stride."""

    first: int
    stride: int = GOLDEN


def stream_key(seed: int, step: int, stream: int) -> Key:
    """The key of one operator's stream in one training step; `NEAREST` draws halves alone."""
    if stream == NEAREST:
        return Key(HALF_COUNTER, 0)
    return Key(mix32(mix32((seed + step * GOLDEN) & _MASK) ^ ((stream * 0x85EBCA6B) & _MASK)))


def random_u32(key: Key, start: int, count: int) -> npt.NDArray[np.uint32]:
    """Elements start..start+count-1 of the stream `key`, uint32; the high bits are the best."""
    with np.errstate(over="ignore"):
        x = np.arange(start, start + count, dtype=np.uint32) * np.uint32(key.stride)
        x += np.uint32(key.first)
        x ^= x >> np.uint32(15)
        x *= np.uint32(0x2C1B3C6D)
        x ^= x >> np.uint32(12)
        x *= np.uint32(0x297A2D39)
    return x


def random_bits(key: Key, count: int, bits: int) -> npt.NDArray[np.int64]:
    """`count` integers uniform in [0, 2**bits), bits <= 32."""
    return (random_u32(key, 0, count) >> np.uint32(32 - bits)).astype(np.int64)
