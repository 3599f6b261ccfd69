"""Momentum and weight decay: what becomes of a bounded step before it moves the weights.

In: the Q16 deltas of a step, velocities, weights. Out: the deltas to take, new velocities. Used by
the weight update; `firmware/` mirrors it in `tt_optimizer.c`. A velocity is v = m * v + delta, as
in SGD with heavy-ball momentum; decay is decoupled: rate * decay * weight (AdamW's form).

Velocities are int8 or int16 integers of one scale a tensor, 2^-bits weight units. The scale follows
the largest velocity of the step before, so that no second copy of the tensor is needed; velocities
beyond it saturate. The step itself is taken with the exact velocity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinytrain.ir import Array
from tinytrain.numeric import random
from tinytrain.numeric.error_scale import DELTA_MAX, weight_delta

F32 = np.float32
VELOCITY_BITS = 20  # most fraction bits of a velocity, and those of the exact one
VELOCITY_MAX = DELTA_MAX << 4
ONE_Q16 = 1 << 16
START_BITS = {"int8": 10, "int16": 14}
"""Of velocities that are all 0: room for a first step of 1/8 and of 2 weight units."""
VELOCITY_STATES = tuple(START_BITS)


@dataclass(frozen=True)
class Optimizer:
    """What is done with a step besides taking it.

    Attributes:
        momentum: share of the last velocity that stays, in [0, 1).
        velocity: how a weight's velocity is kept, "int8" | "int16".
        decay: of a weight, at rate 1.
    """

    momentum: float = 0.0
    velocity: str = "int16"
    decay: float = 0.0

    @property
    def momentum_q16(self) -> int:
        """Momentum as the device has it."""
        return min(round(self.momentum * ONE_Q16), ONE_Q16 - 1)

    @property
    def plain(self) -> bool:
        """Whether the step is taken as it is."""
        return self.momentum_q16 == 0 and self.decay == 0.0


def advance(velocity: Array, bits: int, delta: Array, momentum: int) -> Array:
    """Exact velocities after a step, int64 with `VELOCITY_BITS` fraction bits.

    Args:
        velocity: as stored, with `bits` fraction bits.
        delta: Q16. momentum: Q16.
    """
    held = velocity.astype(np.int64) << (VELOCITY_BITS - bits)
    moved = ((held * momentum + (ONE_Q16 >> 1)) >> 16) + (delta.astype(np.int64) << 4)
    return np.clip(moved, -VELOCITY_MAX, VELOCITY_MAX)


def step_of(exact: Array) -> Array:
    """The Q16 deltas to take of exact velocities, to nearest."""
    delta: Array = (exact + 8) >> 4
    return delta


def stored(exact: Array, bits: int, dtype: str, key: random.Key) -> Array:
    """Velocities to keep with `bits` fraction bits: rounded stochastically, saturated."""
    shift = VELOCITY_BITS - bits
    noise = random.random_bits(key, exact.size, 32).reshape(exact.shape).astype(np.int64)
    limit = int(np.iinfo(dtype).max)
    rounded = (exact + (noise >> (32 - shift))) >> shift
    kept: Array = np.clip(rounded, -limit, limit).astype(dtype)
    return kept


def fitting_bits(exact: Array, dtype: str) -> int:
    """The most fraction bits with which twice the largest velocity does not saturate."""
    largest = 2 * int(np.abs(exact).max(initial=0))
    limit = int(np.iinfo(dtype).max)
    bits = VELOCITY_BITS
    while bits > 0 and largest >> (VELOCITY_BITS - bits) > limit:
        bits -= 1
    return bits


def decay_delta(weights: Array, fraction: Array | None, rate: np.float32, decay: float) -> Array:
    """Q16 deltas that shrink weights by rate * decay of their value, to nearest.

    Args:
        fraction: of the weight state (see `weight_update.move`), None for int8.
    """
    if fraction is None:
        value = weights.astype(np.int64) * 256
    elif fraction.dtype == np.int8:
        value = weights.astype(np.int64) * 256 + fraction
    else:
        value = (fraction * F32(256.0)).astype(np.int64)
    return weight_delta(value, F32(F32(F32(rate) * F32(decay)) * F32(2.0**-8)))
