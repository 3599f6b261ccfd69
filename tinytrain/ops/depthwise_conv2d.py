"""DEPTHWISE_CONV_2D, multiplier 1 and above: forward, input error, weight update.

Weights are [1, kh, kw, in_c * multiplier] as in tflite; output channel c reads input channel
c // multiplier. Source: TFLite's int8 specification; DESIGN section 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tflite.DepthwiseConv2DOptions import DepthwiseConv2DOptions

from tinytrain.errors import InputError
from tinytrain.ir import Array, Attr, Graph, Op
from tinytrain.ops import requantization as rq
from tinytrain.ops import weight_update as wu
from tinytrain.ops.base import GradBuilder, KernelCall, OpDef, Step, TfliteOp, optional
from tinytrain.ops.conv2d import (
    Conv2DInputError,
    emit_conv_grad,
    error_params,
    input_error_io,
    update_io,
    window_of,
)
from tinytrain.ops.fold_error import requantize_errors
from tinytrain.ops.geometry import Window, activation_problems, window_attrs, window_problems
from tinytrain.ops.scratch import planes_scratch


class DepthwiseConv2D(OpDef):
    """Each input channel convolved with its own `multiplier` filters."""

    kind = "depthwise_conv2d"
    tflite = "DEPTHWISE_CONV_2D"
    tflite_inputs = (2, 3)

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """Stride, dilation, padding, activation; the multiplier follows from the shapes."""
        return window_attrs(node.options(DepthwiseConv2DOptions))

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8 activations and weights, int32 bias; output channels a multiple of input ones."""
        x, weights = graph[op.inputs[0]], graph[op.inputs[1]]
        if len(weights.shape) != 4 or weights.shape[0] != 1:
            return [f"weights of shape {weights.shape}, [1, kh, kw, channels] is needed"]
        found = activation_problems(op) + rq.weight_problems(op, graph, 3)
        found += window_problems(op, x.shape, (weights.shape[1], weights.shape[2]))
        if not found and (x.shape[3] == 0 or weights.shape[3] % x.shape[3]):
            found.append(f"{weights.shape[3]} output channels over {x.shape[3]} input channels")
        return found

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """[1, out_h, out_w, in_c * multiplier]."""
        window = window_of(op, graph)
        return ((1, window.out_h, window.out_w, graph[op.inputs[1]].shape[3]),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Accumulate over taps, requantize with double rounding."""
        del step
        x, weights, out = graph[op.inputs[0]], graph[op.inputs[1]], graph[op.outputs[0]]
        window = window_of(op, graph)
        out_c = weights.shape[3]
        multiple = out_c // x.shape[3]
        padded = np.repeat(window.pad(inputs[0].astype(np.int32) - x.q.zero_point), multiple, 2)
        acc = np.zeros((window.out_h, window.out_w, out_c), np.int64)
        for row, column, (rows, columns) in window.taps():
            acc += padded[rows, columns] * inputs[1][0, row, column].astype(np.int32)
        if len(inputs) > 2 and inputs[2] is not None:
            acc = acc + inputs[2].astype(np.int64)
        multiplier, shift = rq.channel_multipliers(x, weights, out, out_c)
        return (rq.requantize(acc, multiplier, shift, op, out)[None],)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """See `emit_conv_grad`."""
        emit_conv_grad(op, builder, family="depthwise_conv2d", channel_axis=3)

    def macs(self, op: Op, graph: Graph) -> int:
        """Positions times weights."""
        return window_of(op, graph).positions * graph[op.inputs[1]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_depthwise_conv2d_s8`."""
        x, weights, out = graph[op.inputs[0]], graph[op.inputs[1]], graph[op.outputs[0]]
        multiplier, shift = rq.channel_multipliers(x, weights, out, weights.shape[3])
        window = window_of(op, graph)
        band, scratch = planes_scratch(window, window.out_w, window.out_h, window.stride_w)
        scratch = max(scratch, 4 * weights.shape[3])
        return KernelCall(
            "tt_depthwise_conv2d_s8",
            {
                "window": window.params,
                "in_c": x.shape[3],
                "multiple": weights.shape[3] // x.shape[3],
                "band": band,
                "scratch_bytes": min(scratch, 65535),
                "input_zero_point": x.q.zero_point,
                "output": rq.output_params(op, out, multiplier, shift),
            },
            {
                "input": op.inputs[0],
                "weights": op.inputs[1],
                "bias": optional(op.inputs, 2),
                "output": op.outputs[0],
            },
            scratch_bytes=scratch,
        )


class DepthwiseInputError(Conv2DInputError):
    """Error of the input of a depthwise convolution."""

    kind = "depthwise_conv2d_input_error"

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Scatter each tap's product, sum over the multiplier, crop, requantize."""
        u, scale, weights, amax = inputs
        window = self.window(op, graph)
        in_c = op.ints("in_shape")[3]
        padded = window.pad(np.zeros((1, window.in_h, window.in_w, in_c), np.int64))
        for row, column, (rows, columns) in window.taps():
            product = u[0].astype(np.int64) * weights[0, row, column]
            summed = product.reshape(window.out_h, window.out_w, in_c, -1).sum(axis=3)
            padded[rows, columns] += summed
        unit = np.float32(scale[0] * np.float32(op.float("gain")))
        return requantize_errors(window.crop(padded), unit, amax, op, step)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_depthwise_conv2d_input_error`."""
        in_c = op.ints("in_shape")[3]
        window = self.window(op, graph)
        multiple = graph[op.inputs[2]].shape[3] // in_c
        band, scratch = 0, 0
        if multiple == 1:
            band, scratch = planes_scratch(window, window.in_w, window.in_h, 1)
        return KernelCall(
            "tt_depthwise_conv2d_input_error",
            {
                "window": window.params,
                "in_c": in_c,
                "multiple": multiple,
                "band": band,
                **error_params(op),
            },
            input_error_io(op),
            scratch_bytes=max(scratch, 4 * in_c),
            takes_step=True,
        )


class DepthwiseUpdate(OpDef):
    """Weight gradient of a depthwise convolution, taken as a step at once."""

    kind = "depthwise_conv2d_update"
    trains = True

    def window(self, op: Op, graph: Graph) -> Window:
        """The forward window."""
        kernel = op.ints("kernel")
        return Window.of(op, graph[op.inputs[0]].shape, (kernel[0], kernel[1]))

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """States keep their shapes."""
        return tuple(graph[name].shape for name in op.outputs)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """G[kh, kw, c] = sum over positions of u[c] * (x[c // multiplier] - zero_point)."""
        x, u, scale, *states, first = inputs
        window = self.window(op, graph)
        out_c = u.shape[3]
        centered = x.astype(np.int64) - op.int("zero_point")
        padded = np.repeat(window.pad(centered), out_c // x.shape[3], axis=2)
        gradient = np.zeros((1, window.kernel_h, window.kernel_w, out_c), np.int64)
        for row, column, (rows, columns) in window.taps():
            gradient[0, row, column] = (padded[rows, columns] * u[0]).sum(axis=(0, 1))
        relative = np.float32(scale[0] * np.float32(op.float("gain")))
        errors = u.reshape(window.positions, out_c)
        made = wu.Gradient.of(gradient, 3, (relative, first[0]), errors, centered)
        return wu.run_update(op, made, [s for s in states if s is not None], step)

    def macs(self, op: Op, graph: Graph) -> int:
        """Positions times weights."""
        kernel = op.ints("kernel")
        return graph[op.inputs[1]].size * kernel[0] * kernel[1]

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_depthwise_conv2d_update`; scratch holds one tap's gradient."""
        if op.ints("channels") and not op.attrs["accumulate"]:
            raise InputError(
                "unsupported-scheme",
                "train",
                "some channels of a depthwise convolution, in weights that are a state as a whole",
                where=op.name,
                hint="keep the trained channels apart (pass split_weights)",
            )
        x, out_c = graph[op.inputs[0]], graph[op.inputs[1]].shape[3]
        return KernelCall(
            "tt_depthwise_conv2d_update",
            {
                "window": self.window(op, graph).params,
                "in_c": x.shape[3],
                "multiple": out_c // x.shape[3],
                "input_zero_point": op.int("zero_point"),
                "rule": wu.update_params(op, graph),
            },
            update_io(op),
            scratch_bytes=4 * out_c,
            takes_step=True,
        )
