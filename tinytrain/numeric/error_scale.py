"""How errors (gradients of activations) and steps (gradients of weights) become integers.

In: int32 accumulators and float32 scales. Out: int8 errors, Q16 weight deltas. This is the part of
the profile `tt.int8.v1` that TFLite does not define; `firmware/` mirrors it in `tt_error.h`.
Every function is integer, or float32 scalars in a fixed order. Must not know operators.

An error tensor holds int8 values with one float32 scale. An operator that makes errors accumulates
in int32 and requantizes with a range `amax` that follows the accumulator's running maximum, so
that the integers fill int8 whatever the loss; the scale carries the size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinytrain.numeric.fixed_point import Int64Array

ERROR_MAX = 127
MIN_RANGE = 127  # a smaller range would only copy the same integers to larger ones
RANGE_MAX = 1 << 30
RANGE_DECAY_SHIFT = 5
CALIBRATION_DECAY_SHIFT = 2
HEADROOM_SHIFT = 4
DELTA_FRACTION_BITS = 16
DELTA_MAX = (1 << 23) - 1  # 128 weight steps in Q16

F32 = np.float32


@dataclass(frozen=True)
class ErrorRequantizer:
    """int32 accumulator -> int8 error: ``((acc >> shift) * multiplier + random16) >> 16``."""

    shift: int
    multiplier: int

    @classmethod
    def for_range(cls, amax: int) -> ErrorRequantizer:
        """The requantizer that maps +-amax onto +-127."""
        limit = max(int(amax), MIN_RANGE)
        shift = max(0, limit.bit_length() - 14)
        return cls(shift, (ERROR_MAX << 16) // (limit >> shift))

    def scale(self, accumulator_scale: np.float32) -> np.float32:
        """The scale of the errors, given that of the accumulator."""
        ratio = F32(65536 << self.shift) / F32(self.multiplier)
        return F32(F32(accumulator_scale) * ratio)

    def apply(self, accumulator: Int64Array, random16: Int64Array) -> npt.NDArray[np.int8]:
        """Round stochastically with `random16` (uniform in [0, 65536), one an element)."""
        half = (1 << self.shift) >> 1
        a = np.clip((accumulator + half) >> self.shift, -32768, 32767)
        return np.clip((a * self.multiplier + random16) >> 16, -128, 127).astype(np.int8)


def next_range(amax: int, accumulator: Int64Array, *, calibrating: bool = False) -> int:
    """The range for the next step: a little over the maximum seen now, or the decaying old one.

    The headroom keeps the largest errors from being cut, which would shorten every gradient. A
    calibrating step forgets faster: start values may be far too large, layer upon layer.
    """
    seen = min(int(np.max(np.abs(accumulator))), RANGE_MAX) if accumulator.size else 0
    decay = CALIBRATION_DECAY_SHIFT if calibrating else RANGE_DECAY_SHIFT
    return max(seen + (seen >> HEADROOM_SHIFT), int(amax) - (int(amax) >> decay))


def step_multiplier(step: np.float32) -> tuple[int, int]:
    """A non-negative float32 as (24-bit multiplier, right shift to Q16 weight units)."""
    significand, exponent = np.frexp(F32(step))
    return int(significand * F32(1 << 24)), 24 - DELTA_FRACTION_BITS - int(exponent)


def weight_delta(gradient: Int64Array, step: np.float32) -> Int64Array:
    """-gradient * step in Q16 weight units, rounded to nearest, saturated to +-DELTA_MAX."""
    multiplier, shift = step_multiplier(step)
    if shift > 62 or multiplier == 0:
        return np.zeros_like(gradient)
    product = -gradient * multiplier
    if shift > 0:
        product = (product + (np.int64(1) << np.int64(shift - 1))) >> np.int64(shift)
    return np.clip(product, -DELTA_MAX, DELTA_MAX)
