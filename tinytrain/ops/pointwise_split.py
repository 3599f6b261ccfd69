"""1x1 convolutions whose weights lie in two parts: frozen ones in flash, trained channels in RAM.

In numbers they are the convolution, and its input error, with the trained channels laid over the
frozen weights (see `merge_weights`); their kernels read both parts, so no merged copy is needed.
Inputs are those of the convolution (of its input error), then the trained slice; the frozen
weights are 0 at the trained channels, which makes the two sums independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinytrain.ir import Array, Graph, Op
from tinytrain.ops import requantization as rq
from tinytrain.ops.base import KernelCall, Param, Step
from tinytrain.ops.conv2d import (
    Conv2D,
    Conv2DInputError,
    error_params,
    input_error_io,
    window_of,
)
from tinytrain.ops.geometry import Window

SPLIT_KINDS = {"conv2d": "pointwise_split", "conv2d_input_error": "pointwise_split_input_error"}


def can_split(op: Op, graph: Graph) -> bool:
    """Whether a convolution or its input error has a kernel for weights in two parts."""
    if op.kind == "conv2d":
        return _is_pointwise(window_of(op, graph))
    if op.kind == "conv2d_input_error":
        return _is_pointwise(Conv2DInputError().window(op, graph))
    return False


def _is_pointwise(window: Window) -> bool:
    sizes = (window.kernel_h, window.kernel_w, window.stride_h, window.stride_w)
    unpadded = (window.pad_h, window.pad_w) == (0, 0)
    same = (window.in_h, window.in_w) == (window.out_h, window.out_w)
    return sizes == (1, 1, 1, 1) and unpadded and same


def _merged(op: Op, frozen: Array, trained: Array) -> Array:
    weights = frozen.copy()
    weights[..., list(op.ints("channels"))] = trained
    return weights


def _split_params(op: Op, graph: Graph, weights: str) -> dict[str, Param]:
    channels = op.ints("channels")
    return {
        "in_c": graph[weights].shape[3],
        "out_c": graph[weights].shape[0],
        "trained_channels": len(channels),
        "channels": np.array(channels, np.uint16),
    }


class PointwiseSplit(Conv2D):
    """Inputs: input, frozen weights, bias, trained slice."""

    kind = "pointwise_split"
    tflite = ""

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """The convolution with merged weights."""
        x, frozen, bias, trained = inputs
        return super().run(op, graph, (x, _merged(op, frozen, trained), bias), step)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_pointwise_split_s8`; scratch holds the trained channels of a position."""
        x, weights, out = graph[op.inputs[0]], graph[op.inputs[1]], graph[op.outputs[0]]
        multiplier, shift = rq.channel_multipliers(x, weights, out, weights.shape[0])
        return KernelCall(
            "tt_pointwise_split_s8",
            {
                "positions": window_of(op, graph).positions,
                **_split_params(op, graph, op.inputs[1]),
                "input_zero_point": x.q.zero_point,
                "output": rq.output_params(op, out, multiplier, shift),
            },
            {
                "input": op.inputs[0],
                "weights": op.inputs[1],
                "trained": op.inputs[3],
                "bias": op.inputs[2],
                "output": op.outputs[0],
            },
            scratch_bytes=len(op.ints("channels")),
        )


class PointwiseSplitInputError(Conv2DInputError):
    """Inputs: folded error, its scale, frozen weights, range, trained slice."""

    kind = "pointwise_split_input_error"

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """The input error with merged weights."""
        *given, trained = inputs
        given[2] = _merged(op, given[2], trained)
        return super().run(op, graph, given, step)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_pointwise_split_input_error`; scratch holds one position's accumulators."""
        io: Mapping[str, str] = {**input_error_io(op), "trained": op.inputs[4]}
        params = _split_params(op, graph, op.inputs[2])
        count = graph[op.inputs[2]].shape[3] + len(op.ints("channels"))
        return KernelCall(
            "tt_pointwise_split_input_error",
            {"positions": self.window(op, graph).positions, **params, **error_params(op)},
            io,
            scratch_bytes=4 * count,
            takes_step=True,
        )
