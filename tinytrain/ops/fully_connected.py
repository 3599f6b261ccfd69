"""FULLY_CONNECTED, and `logits`: the same with int32 output, which a loss reads.

Weights are [out, in]; the input is taken as rows of `in` values. Backward, a row is a position of
a 1x1 convolution. Source: TFLite's int8 specification (double rounding, as in its reference
kernels for microcontrollers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tflite.FullyConnectedOptions import FullyConnectedOptions

from tinytrain.ir import Array, Attr, Graph, Op, Role, Tensor
from tinytrain.numeric import fixed_point
from tinytrain.ops import requantization as rq
from tinytrain.ops.base import GradBuilder, KernelCall, OpDef, Param, Step, TfliteOp, optional
from tinytrain.ops.conv2d import Conv2DInputError, Conv2DUpdate, emit_conv_grad
from tinytrain.ops.geometry import Window, activation_name, activation_problems


def row_window(rows: int) -> Window:
    """`rows` positions of a 1x1 convolution."""
    return Window(1, rows, 1, rows, 1, 1, 1, 1, 1, 1, 0, 0)


def output_multipliers(x: Tensor, weights: Tensor, out: Tensor) -> tuple[Array, Array]:
    """Per-tensor scales multiply in float32 as TFLite does; per-channel ones in double."""
    channels = weights.shape[0]
    if weights.q.per_channel:
        return rq.channel_multipliers(x, weights, out, channels)
    product = np.float32(np.float32(x.q.scale0) * np.float32(weights.q.scale0))
    real = float(product) / float(np.float32(out.q.scale0))
    multiplier, shift = fixed_point.quantize_multiplier(real)
    return np.full(channels, multiplier, np.int32), np.full(channels, shift, np.int32)


def accumulate(op: Op, graph: Graph, inputs: Sequence[Array]) -> Array:
    """int64 accumulators [rows, out], bias added, modulo 2^32."""
    weights = graph[op.inputs[1]]
    rows = inputs[0].reshape(-1, weights.shape[1]).astype(np.float64)
    rows = rows - graph[op.inputs[0]].q.zero_point
    acc = (rows @ inputs[1].astype(np.float64).T).astype(np.int64)
    if len(inputs) > 2 and inputs[2] is not None:
        acc = acc + inputs[2]
    return fixed_point.wrap_int32(acc)


def row_params(op: Op, graph: Graph) -> dict[str, Param]:
    """The C fields that both forward kernels have."""
    out_features, in_features = graph[op.inputs[1]].shape
    sums = pair_sums(graph[op.inputs[1]])
    return {
        "pair_sums": "NULL" if sums is None else sums,
        "rows": graph[op.inputs[0]].size // in_features,
        "in_c": in_features,
        "out_c": out_features,
        "input_zero_point": graph[op.inputs[0]].q.zero_point,
    }


def pair_sums(weights: Tensor) -> Array | None:
    """Sums of w[i] * w[i + 1] over pairs of terms, of whole eights; None where weights change.

    With them one product makes two (see `tt_dot_dsp.h`).
    """
    if weights.role is not Role.CONST or weights.data is None or weights.shape[1] < 8:
        return None
    whole = weights.shape[1] & ~7
    w = weights.data[:, :whole].astype(np.int64)
    sums: Array = (w[:, 0::2] * w[:, 1::2]).sum(axis=1).astype(np.int32)
    return sums


def row_io(op: Op) -> Mapping[str, str]:
    """The C fields of the forward kernels' io."""
    return {
        "input": op.inputs[0],
        "weights": op.inputs[1],
        "bias": optional(op.inputs, 2),
        "output": op.outputs[0],
    }


class FullyConnected(OpDef):
    """Rows times weights, int8."""

    kind = "fully_connected"
    tflite = "FULLY_CONNECTED"
    tflite_inputs = (2, 3)

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """Activation, whether leading dimensions are kept, the weights' format."""
        options = node.options(FullyConnectedOptions)
        return {
            "activation": activation_name(options.FusedActivationFunction()),
            "keep_num_dims": bool(options.KeepNumDims()),
            "weights_format": int(options.WeightsFormat()),
        }

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8 activations and constant weights [out, in], int32 bias; default weight format."""
        x, weights = graph[op.inputs[0]], graph[op.inputs[1]]
        found = activation_problems(op)
        if op.attrs.get("weights_format", 0) != 0:
            found.append("shuffled weights format")
        if len(weights.shape) != 2:
            return [*found, f"weights of rank {len(weights.shape)}, 2 is needed"]
        found += rq.weight_problems(op, graph, 0)
        if weights.shape[1] == 0 or x.size % weights.shape[1]:
            found.append(f"input of {x.size} values does not split into rows of {weights.shape[1]}")
        elif x.size // weights.shape[1] > 65535:
            found.append(f"{x.size // weights.shape[1]} rows, 65535 is the most")
        if op.attrs.get("keep_num_dims") and x.shape[-1:] != weights.shape[1:]:
            found.append("keep_num_dims with an input whose last dimension is not the row")
        return found

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """[rows, out], or the input's shape with the last dimension replaced."""
        x, weights = graph[op.inputs[0]], graph[op.inputs[1]]
        if op.attrs.get("keep_num_dims"):
            return ((*x.shape[:-1], weights.shape[0]),)
        return ((x.size // weights.shape[1], weights.shape[0]),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Accumulate, requantize with double rounding."""
        del step
        x, weights, out = graph[op.inputs[0]], graph[op.inputs[1]], graph[op.outputs[0]]
        multiplier, shift = output_multipliers(x, weights, out)
        result = rq.requantize(accumulate(op, graph, inputs), multiplier, shift, op, out)
        return (result.reshape(out.shape),)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """See `emit_conv_grad`."""
        emit_conv_grad(op, builder, family="fully_connected", channel_axis=0)

    def macs(self, op: Op, graph: Graph) -> int:
        """Rows times weights."""
        weights = graph[op.inputs[1]]
        return graph[op.inputs[0]].size // weights.shape[1] * weights.size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_fully_connected_s8`."""
        x, weights, out = graph[op.inputs[0]], graph[op.inputs[1]], graph[op.outputs[0]]
        multiplier, shift = output_multipliers(x, weights, out)
        stage = rq.output_params(op, out, multiplier, shift)
        return KernelCall(
            "tt_fully_connected_s8", {**row_params(op, graph), "output": stage}, row_io(op)
        )


class Logits(FullyConnected):
    """A classifier whose int32 accumulators are the output; real = acc * s_x * s_w[c]."""

    kind = "logits"
    tflite = ""

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """Made by head replacement only."""
        del op, graph
        return []

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Accumulate only."""
        del step
        acc = accumulate(op, graph, inputs)
        return (acc.reshape(graph[op.outputs[0]].shape).astype(np.int32),)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_fully_connected_s32`."""
        return KernelCall("tt_fully_connected_s32", row_params(op, graph), row_io(op))


class FullyConnectedInputError(Conv2DInputError):
    """Error of a fully connected layer's input."""

    kind = "fully_connected_input_error"

    def window(self, op: Op, graph: Graph) -> Window:
        """One position a row."""
        return row_window(int(np.prod(op.ints("in_shape"))) // graph[op.inputs[2]].shape[1])


class FullyConnectedUpdate(Conv2DUpdate):
    """Weight gradient of a fully connected layer, taken as a step at once."""

    kind = "fully_connected_update"
    trains = True

    def trained_channels(self, op: Op, graph: Graph) -> int:
        """Input features of the gradient."""
        return len(op.ints("channels")) or graph[op.inputs[3]].shape[1]

    def window(self, op: Op, graph: Graph) -> Window:
        """One position a row."""
        return row_window(graph[op.inputs[0]].size // self.trained_channels(op, graph))
