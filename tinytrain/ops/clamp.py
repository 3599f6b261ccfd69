"""Where an operator's output is clamped, and the error with those places set to 0.

In: the values an output would take without its clamp. Out: bounds for `mask_error`, which are None
where nothing can ever be clamped, so that the forward output need not be kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tinytrain.ir import Op, Tensor
from tinytrain.numeric.quantize import INT8_MAX, INT8_MIN
from tinytrain.ops.base import Error, GradBuilder
from tinytrain.ops.fold_error import emit_fold

Bounds = tuple[int, int]


def value_range(tensor: Tensor) -> Bounds:
    """Smallest and largest int8 value a tensor can hold."""
    if tensor.data is None:
        return INT8_MIN, INT8_MAX
    return int(np.min(tensor.data)), int(np.max(tensor.data))


def reachable_bounds(unclamped: Iterable[int], clamp: Bounds) -> Bounds | None:
    """The clamp bounds that take effect.

    Args:
        unclamped: the extreme values of the output before its clamp.
        clamp: the output's clamp bounds.

    Returns:
        (low, high): an output that is not strictly between them may have been clamped; None if
        that cannot happen.
    """
    values = list(unclamped)
    low = clamp[0] if min(values) < clamp[0] else INT8_MIN - 1
    high = clamp[1] if max(values) > clamp[1] else INT8_MAX + 1
    return None if low < INT8_MIN and high > INT8_MAX else (low, high)


def masked_error(builder: GradBuilder, op: Op, bounds: Bounds | None) -> Error:
    """The error of `op`'s output, 0 where the output was clamped."""
    return emit_fold(builder, op, np.ones(1, np.float32), bounds)
