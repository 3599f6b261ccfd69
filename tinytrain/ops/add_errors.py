"""Sum of two errors of one tensor that has two consumers (a residual branch, for one)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinytrain.ir import Array, Graph, Op
from tinytrain.ops.base import KernelCall, OpDef, Step
from tinytrain.ops.fold_error import requantize_errors

F32 = np.float32
ONE = 1 << 14


def weights_of(scale_a: np.float32, scale_b: np.float32) -> tuple[int, int, np.float32]:
    """Q14 weights of both errors relative to the larger scale, and the accumulator's unit."""
    largest = max(scale_a, scale_b)
    if largest == 0:
        return ONE, ONE, F32(0.0)
    factors = [int(F32(F32(F32(s) / largest) * F32(ONE)) + F32(0.5)) for s in (scale_a, scale_b)]
    return factors[0], factors[1], F32(largest * F32(1 / ONE))


class AddErrors(OpDef):
    """acc = a * weight_a + b * weight_b; requantized."""

    kind = "add_errors"
    in_place = ((0, 0), (2, 0))

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """As both; scale; range."""
        return (graph[op.inputs[0]].shape, (1,), (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """See `weights_of`."""
        del graph
        a, scale_a, b, scale_b, amax = inputs
        real_a = F32(scale_a[0] * F32(op.float("gain_a")))
        real_b = F32(scale_b[0] * F32(op.float("gain_b")))
        weight_a, weight_b, unit = weights_of(real_a, real_b)
        acc = a.astype(np.int64) * weight_a + b.astype(np.int64) * weight_b
        return requantize_errors(acc, unit, amax, op, step)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_add_errors`."""
        return KernelCall(
            "tt_add_errors",
            {
                "count": graph[op.inputs[0]].size,
                "gain_a": op.float("gain_a"),
                "gain_b": op.float("gain_b"),
                "stream": op.int("stream"),
            },
            {
                "a": op.inputs[0],
                "scale_a": op.inputs[1],
                "b": op.inputs[2],
                "scale_b": op.inputs[3],
                "range": op.inputs[4],
                "sum": op.outputs[0],
                "sum_scale": op.outputs[1],
            },
            takes_step=True,
        )
