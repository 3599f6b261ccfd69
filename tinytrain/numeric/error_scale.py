"""How errors (gradients of activations) and steps (gradients of weights) become integers.

In: int32 accumulators and float32 scales. Out: int8 errors, Q16 weight deltas. This is the part of
the profile `tt.int8.v1` that TFLite does not define; `firmware/` mirrors it in `tt_error.h`.
Every function is integer, or float32 scalars in a fixed order. Must not know operators.

An error tensor holds int8 values with one float32 scale. An operator that makes errors accumulates
in int32 and requantizes to a range that follows the running maximum of its errors. Ranges and
scales are relative to the sample's first error (that of the loss), which fills int8 whatever
its size: so neither moves with the loss, and only a step of weights takes the real size in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinytrain.numeric.fixed_point import Int64Array

ERROR_MAX = 127
MIN_RANGE = 127  # a smaller range would only copy the same integers to larger ones
RANGE_MAX = 1 << 30
RANGE_DECAY = np.float32(0.96875)
CALIBRATION_DECAY = np.float32(0.75)
HEADROOM = np.float32(1.0625)
DELTA_FRACTION_BITS = 16
DELTA_MAX = (1 << 23) - 1  # 128 weight steps in Q16
DELTA_MIN = -DELTA_MAX - 1

F32 = np.float32


@dataclass(frozen=True)
class ErrorRequantizer:
    """int32 accumulator -> int8 error: ``((acc >> shift) * multiplier + random16) >> 16``."""

    shift: int
    multiplier: int

    @classmethod
    def for_range(cls, largest: int) -> ErrorRequantizer:
        """The requantizer that maps +-largest onto +-127."""
        limit = max(int(largest), MIN_RANGE)
        shift = max(0, limit.bit_length() - 14)
        return cls(shift, (ERROR_MAX << 16) // (limit >> shift))

    def scale(self, accumulator_scale: np.float32) -> np.float32:
        """The scale of the errors, given that of the accumulator."""
        ratio = F32(65536 << self.shift) / F32(self.multiplier)
        return F32(F32(accumulator_scale) * ratio)

    def apply(self, accumulator: Int64Array, random16: Int64Array) -> npt.NDArray[np.int8]:
        """Round with `random16`: uniform in [0, 65536), one an element; or 2^15, to nearest."""
        half = (1 << self.shift) >> 1
        a = np.clip((accumulator + half) >> self.shift, -32768, 32767)
        return np.clip((a * self.multiplier + random16) >> 16, -128, 127).astype(np.int8)


def error_limit(range_: np.float32, unit: np.float32) -> int:
    """The accumulator that a range, relative to the first error, stands for.

    Args:
        range_: largest error expected, relative to a unit of the sample's first error.
        unit: size of an accumulator unit on the same terms.
    """
    with np.errstate(over="ignore"):
        limit = F32(F32(range_) / F32(unit)) if unit > 0 else F32(0.0)
    return int(limit) if limit < RANGE_MAX else RANGE_MAX


def next_range(
    range_: np.float32, unit: np.float32, accumulator: Int64Array, *, calibrating: bool = False
) -> np.float32:
    """The range for the next step: a little over the maximum seen now, or the decaying old one.

    The headroom keeps the largest errors from being cut, which would shorten every gradient. A
    calibrating step forgets faster: start values may be far too large.
    """
    seen = F32(int(np.max(np.abs(accumulator))) if accumulator.size else 0)
    roomy = F32(F32(seen * F32(unit)) * HEADROOM)
    decayed = F32(F32(range_) * (CALIBRATION_DECAY if calibrating else RANGE_DECAY))
    return roomy if roomy > decayed else decayed


def step_multiplier(step: np.float32) -> tuple[int, int]:
    """A non-negative float32 as (24-bit multiplier, right shift to Q16 weight units)."""
    significand, exponent = np.frexp(F32(step))
    return int(significand * F32(1 << 24)), 24 - DELTA_FRACTION_BITS - int(exponent)


def weight_delta(gradient: Int64Array, step: np.float32) -> Int64Array:
    """-gradient * step in Q16 weight units, rounded to nearest, saturated to 24 bits."""
    multiplier, shift = step_multiplier(step)
    if shift > 62 or multiplier == 0:
        return np.zeros_like(gradient)
    product = -gradient * multiplier
    if shift > 0:
        product = (product + (np.int64(1) << np.int64(shift - 1))) >> np.int64(shift)
    return np.clip(product, DELTA_MIN, DELTA_MAX)
