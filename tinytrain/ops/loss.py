"""Losses, the operators where the backward pass starts.

`class_scores` (softmax in float32 from int32 or int8 logits) is part of inference. Of a single
logit z it gives 1 - p and p with p = 1 / (1 + e^-z), the softmax of 0 and z: binary cross-entropy
is cross-entropy over these two classes, of which only the second one has a logit.
`cross_entropy_error` and `mean_squared_error` compare with the target and make the first error. The
first error fills int8 whatever its size. All errors after it are relative to it; its real scale
goes to the updates alone.
Source: DESIGN section 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinytrain.ir import Array, Graph, Op, Tensor
from tinytrain.numeric import random
from tinytrain.numeric.error_scale import ErrorRequantizer
from tinytrain.numeric.float_math import exp_negative, log
from tinytrain.ops.base import KernelCall, OpDef, Step

F32 = np.float32
SMALLEST_SCORE = F32(1e-30)


def logit_scales(op: Op) -> Array:
    """float32 [classes]."""
    return np.array(op.floats("scales"), np.float32)


def ordered_sum(values: Array) -> np.float32:
    """Sum of float32 values from first to last, rounded at each addition, as C does."""
    total = F32(0.0)
    for value in values:
        total = F32(total + value)
    return total


class ClassScores(OpDef):
    """Softmax of the logits in float32, maximum subtracted."""

    kind = "class_scores"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """[classes]."""
        return ((max(2, graph[op.inputs[0]].size),),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """real = (q - zero_point) * scale[c]; exp; divide by the sum."""
        del graph, step
        q = inputs[0].reshape(-1).astype(np.int32) - np.int32(op.int("zero_point"))
        real = q.astype(np.float32) * logit_scales(op)
        if real.size == 1:
            real = np.concatenate([np.zeros(1, np.float32), real])
        powers = exp_negative(real - np.max(real))
        return ((powers / ordered_sum(powers)).astype(np.float32),)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_class_scores_s32` or `tt_class_scores_s8`."""
        logits = graph[op.inputs[0]]
        suffix = "s8" if logits.dtype == "int8" else "s32"
        return KernelCall(
            f"tt_class_scores_{suffix}",
            {
                "logits": logits.size,
                "zero_point": op.int("zero_point"),
                "scales": logit_scales(op),
            },
            {"logits": op.inputs[0], "scores": op.outputs[0]},
        )


class CrossEntropyError(OpDef):
    """dL/dlogit = score - target, with optional label smoothing; also the loss.

    Where there is one logit and two classes, it is that of the second class.
    """

    kind = "cross_entropy_error"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """Error as the logits; its relative scale [1]; loss [1]; its real scale [1]."""
        return (op.ints("error_shape"), (1,), (1,), (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """The error is rounded stochastically at scale max|error| / 127."""
        del graph
        scores, target = inputs[0], int(np.asarray(inputs[1]).reshape(-1)[0])
        smoothing = F32(op.float("smoothing"))
        even = F32(smoothing / F32(scores.size))
        wanted = np.full(scores.size, even, np.float32)
        wanted[target] = F32(even + F32(F32(1.0) - smoothing))
        logits = int(np.prod(op.ints("error_shape")))
        error = (scores - wanted).astype(np.float32)[scores.size - logits :]
        q, scale = quantize_first_error(error, step.key(op))
        loss = F32(-log(max(scores[target], SMALLEST_SCORE)))
        return (
            q.reshape(op.ints("error_shape")),
            np.ones(1, np.float32),
            np.array([loss], np.float32),
            np.array([scale], np.float32),
        )

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_cross_entropy_error`."""
        return KernelCall(
            "tt_cross_entropy_error",
            {
                "classes": graph[op.inputs[0]].size,
                "logits": int(np.prod(op.ints("error_shape"))),
                "smoothing": op.float("smoothing"),
                "stream": op.int("stream"),
            },
            {
                "scores": op.inputs[0],
                "target": op.inputs[1],
                "error": op.outputs[0],
                "error_scale": op.outputs[1],
                "loss": op.outputs[2],
                "first_scale": op.outputs[3],
            },
            takes_step=True,
        )


def quantize_first_error(error: Array, key: random.Key) -> tuple[Array, np.float32]:
    """float32 [n] -> (int8 [n], scale): the largest becomes 127; stochastic rounding."""
    largest = F32(np.max(np.abs(error)))
    if largest < SMALLEST_SCORE:  # 127 / largest would overflow
        return np.zeros(error.size, np.int8), F32(1.0)
    noise = random.random_bits(key, error.size, 16).astype(np.float32) * F32(2.0**-16)
    scaled = (error * F32(F32(127.0) / largest)).astype(np.float32)
    q = np.floor((scaled + noise).astype(np.float32))
    return np.clip(q, -127, 127).astype(np.int8), F32(largest / F32(127.0))


class MeanSquaredError(OpDef):
    """L = mean((y - t)^2) of a quantized output; the target is int8 at the output's scale."""

    kind = "mean_squared_error"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """Error as the output; its relative scale [1]; loss [1]; its real scale [1]."""
        return (graph[op.inputs[0]].shape, (1,), (1,), (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """dL/dy = 2 (y - t) / n; differences beyond +-127 are scaled to fit."""
        output = graph[op.inputs[0]]
        difference = inputs[0].astype(np.int64) - inputs[1].reshape(output.shape)
        requantizer = ErrorRequantizer.for_range(int(np.max(np.abs(difference))))
        noise = random.random_bits(step.key(op), output.size, 16).reshape(output.shape)
        unit = self._unit(output)
        squares = F32(int(np.sum(difference**2)))
        return (
            requantizer.apply(difference, noise),
            np.ones(1, np.float32),
            np.array([F32(squares * self._loss_unit(output))], np.float32),
            np.array([requantizer.scale(unit)], np.float32),
        )

    @staticmethod
    def _unit(output: Tensor) -> np.float32:
        return F32(2.0 * output.q.scale0 / output.size)

    @staticmethod
    def _loss_unit(output: Tensor) -> np.float32:
        return F32(output.q.scale0**2 / output.size)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_mean_squared_error`."""
        output = graph[op.inputs[0]]
        return KernelCall(
            "tt_mean_squared_error",
            {
                "count": output.size,
                "unit": float(self._unit(output)),
                "loss_unit": float(self._loss_unit(output)),
                "stream": op.int("stream"),
            },
            {
                "output": op.inputs[0],
                "target": op.inputs[1],
                "error": op.outputs[0],
                "error_scale": op.outputs[1],
                "loss": op.outputs[2],
                "first_scale": op.outputs[3],
            },
            takes_step=True,
        )
