"""CONV_2D: forward, input error, weight update. Weights are OHWI as in tflite.

Source: TFLite's int8 specification (forward); DESIGN section 2 (backward).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tflite.Conv2DOptions import Conv2DOptions

from tinytrain.errors import InputError
from tinytrain.ir import Array, Attr, Graph, Op, Phase
from tinytrain.numeric.quantize import activation_range
from tinytrain.ops import requantization as rq
from tinytrain.ops import weight_update as wu
from tinytrain.ops.base import GradBuilder, KernelCall, OpDef, Step, TfliteOp, optional
from tinytrain.ops.bias import bias_limits, emit_bias_update
from tinytrain.ops.fold_error import emit_fold, requantize_errors
from tinytrain.ops.geometry import Window, activation_problems, window_attrs, window_problems
from tinytrain.ops.scratch import input_error_scratch, matmul_scratch, update_scratch

# 128 * 255 * positions must stay below 2^31
MAX_POSITIONS = (2**31 - 1) // (128 * 255)
GEOMETRY = ("stride", "dilation", "padding", "pads")


def window_of(op: Op, graph: Graph, input_index: int = 0, weight_index: int = 1) -> Window:
    """The window of a convolution, from its input's and weights' shapes."""
    kernel = graph[op.inputs[weight_index]].shape[1:3]
    return Window.of(op, graph[op.inputs[input_index]].shape, (kernel[0], kernel[1]))


def emit_conv_grad(op: Op, builder: GradBuilder, *, family: str, channel_axis: int) -> None:
    """The backward operators of a convolution-like operator: fold, input error, bias, weights.

    The input error comes before the updates, since it needs the weights of the forward pass.

    Args:
        family: kinds are ``<family>_input_error`` and ``<family>_update``.
        channel_axis: the output-channel axis of the weights.
    """
    x, weights = op.inputs[0], op.inputs[1]
    graph = builder.graph
    trained, bias = builder.trained(weights), builder.trained_bias(op)
    needs_error = builder.needs_error(x)
    if not (trained or bias or needs_error):
        return
    out = graph[op.outputs[0]]
    channels = graph[weights].shape[channel_axis]
    _check_positions(op, out.size // channels)
    scales = graph[weights].q.scales(channels)
    clamped = out.dtype == "int8"
    bounds = activation_range(op.str("activation"), out.q) if clamped else None
    u = emit_fold(builder, op, scales, bounds)
    geometry = {k: op.attrs[k] for k in GEOMETRY if k in op.attrs}
    if needs_error:
        error = builder.new_error(x, "error")
        amax = builder.new_range("error")
        builder.emit(
            f"{family}_input_error",
            (u.tensor, u.scale, weights, amax),
            (*error[:2], amax),
            gain=u.gain,
            stream=builder.stream(),
            in_shape=graph[x].shape,
            **geometry,
        )
        builder.add_error(x, error)
    input_scale = graph[x].q.scale0
    if bias:
        factors = wu.rate_factors(1.0, 1.0 / input_scale, scales)
        limits = bias_limits(out, input_scale * scales, bias.tau)
        emit_bias_update(builder, u, bias, factors, limits)
    if trained:
        saved = _saved_input(builder, x, graph[weights].shape[-1], trained.channels)
        folded = u.tensor
        if channel_axis == 3 and trained.channels:  # of a depthwise layer, input is output channel
            folded = emit_gather(builder, u.tensor, out.shape, trained.channels)
            scales = scales[list(trained.channels)]
        factors = wu.rate_factors(trained.rho, input_scale, scales)
        operands, results = wu.update_operands(trained)
        builder.emit(
            f"{family}_update",
            (saved, folded, u.scale, *operands, builder.first_scale),
            results,
            **wu.update_attrs(builder, trained, factors, u.gain),
            zero_point=graph[x].q.zero_point,
            kernel=graph[weights].shape[1:3] if len(graph[weights].shape) == 4 else (1, 1),
            **geometry,
        )
        wu.emit_apply(builder, trained)


def _check_positions(op: Op, positions: int) -> None:
    if positions > MAX_POSITIONS:
        raise InputError(
            "too-many-positions",
            "train",
            f"{positions} output positions; gradients are summed over at most {MAX_POSITIONS} in"
            " 32 bits",
            where=op.name,
            hint="leave this layer and those before it out of the scheme",
        )


def _saved_input(builder: GradBuilder, x: str, in_channels: int, channels: tuple[int, ...]) -> str:
    """The input as the weight gradient reads it: whole, or only the trained channels."""
    if not channels:
        return x
    shape = builder.graph[x].shape
    if shape[-1] != in_channels:  # a fully connected layer flattens its input
        shape = (builder.graph[x].size // in_channels, in_channels)
    return emit_gather(builder, x, shape, channels, Phase.FORWARD)


def emit_gather(
    builder: GradBuilder,
    x: str,
    shape: tuple[int, ...],
    channels: tuple[int, ...],
    phase: Phase = Phase.BACKWARD,
) -> str:
    """Some channels of an activation that is read with this shape."""
    out_shape = (*shape[:-1], len(channels))
    chosen = builder.new_tensor("chosen" if phase is Phase.BACKWARD else "saved", out_shape)
    builder.emit_in(
        phase,
        "gather_channels",
        (x,),
        (chosen,),
        channels=channels,
        out_shape=out_shape,
        in_channels=shape[-1],
    )
    return chosen


class Conv2D(OpDef):
    """Two-dimensional convolution, int8, bias int32, fused activation."""

    kind = "conv2d"
    tflite = "CONV_2D"
    tflite_inputs = (2, 3)

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """Stride, dilation, padding, activation."""
        return window_attrs(node.options(Conv2DOptions))

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8 activations and weights, int32 bias; as many weight channels as input channels."""
        x, weights = graph[op.inputs[0]], graph[op.inputs[1]]
        if len(weights.shape) != 4:
            return [f"weights of rank {len(weights.shape)}, 4 is needed"]
        found = activation_problems(op) + rq.weight_problems(op, graph, 0)
        found += window_problems(op, x.shape, (weights.shape[1], weights.shape[2]))
        if not found and weights.shape[3] != x.shape[3]:
            found.append(f"{weights.shape[3]} weight channels over {x.shape[3]} (grouped)")
        return found

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """[1, out_h, out_w, out_c]."""
        window = window_of(op, graph)
        return ((1, window.out_h, window.out_w, graph[op.inputs[1]].shape[0]),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Accumulate over taps, requantize with double rounding."""
        del step
        x, weights = graph[op.inputs[0]], graph[op.inputs[1]]
        window = window_of(op, graph)
        padded = window.pad(inputs[0].astype(np.float64) - x.q.zero_point)
        w = inputs[1].astype(np.float64)
        out_c = weights.shape[0]
        acc = np.zeros((window.positions, out_c))
        for row, column, (rows, columns) in window.taps():
            acc += padded[rows, columns].reshape(window.positions, -1) @ w[:, row, column].T
        total = acc.astype(np.int64)
        if len(inputs) > 2 and inputs[2] is not None:
            total = total + inputs[2].astype(np.int64)
        out = graph[op.outputs[0]]
        multiplier, shift = rq.channel_multipliers(x, weights, out, out_c)
        result = rq.requantize(total, multiplier, shift, op, out)
        return (result.reshape(out.shape),)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """See `emit_conv_grad`."""
        emit_conv_grad(op, builder, family="conv2d", channel_axis=0)

    def macs(self, op: Op, graph: Graph) -> int:
        """Positions times weights."""
        return window_of(op, graph).positions * graph[op.inputs[1]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_conv2d_s8`."""
        x, weights, out = graph[op.inputs[0]], graph[op.inputs[1]], graph[op.outputs[0]]
        multiplier, shift = rq.channel_multipliers(x, weights, out, weights.shape[0])
        window = window_of(op, graph)
        terms = weights.size // out.shape[3]
        block, scratch = matmul_scratch(terms, window.positions, terms != x.shape[3])
        return KernelCall(
            "tt_conv2d_s8",
            {
                "window": window.params,
                "in_c": x.shape[3],
                "out_c": out.shape[3],
                "block": block,
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


class Conv2DInputError(OpDef):
    """Error of a convolution's input: the transposed convolution of the folded error."""

    kind = "conv2d_input_error"

    def window(self, op: Op, graph: Graph) -> Window:
        """The forward window."""
        kernel = graph[op.inputs[2]].shape[1:3]
        return Window.of(op, op.ints("in_shape"), (kernel[0], kernel[1]))

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """As the forward input; scale; range."""
        del graph
        return (op.ints("in_shape"), (1,), (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Scatter each tap's product, crop the padding, requantize."""
        u, scale, weights, amax = inputs
        window = self.window(op, graph)
        taps = weights.reshape(weights.shape[0], window.kernel_h, window.kernel_w, -1)
        padded = window.pad(np.zeros((1, window.in_h, window.in_w, taps.shape[3])))
        flat = u.reshape(window.positions, -1).astype(np.float64)
        for row, column, (rows, columns) in window.taps():
            product = flat @ taps[:, row, column].astype(np.float64)
            padded[rows, columns] += product.reshape(window.out_h, window.out_w, -1)
        acc = window.crop(padded).astype(np.int64).reshape(op.ints("in_shape"))
        unit = np.float32(scale[0] * np.float32(op.float("gain")))
        return requantize_errors(acc, unit, amax, op, step)

    def macs(self, op: Op, graph: Graph) -> int:
        """As the forward convolution."""
        return self.window(op, graph).positions * graph[op.inputs[2]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_conv2d_input_error`."""
        out_c, *_, in_c = graph[op.inputs[2]].shape
        window = self.window(op, graph)
        taps = window.kernel_h * window.kernel_w
        block, scratch = input_error_scratch(out_c, taps, window.in_h * window.in_w)
        return KernelCall(
            "tt_conv2d_input_error",
            {
                "window": window.params,
                "in_c": in_c,
                "out_c": out_c,
                "block": block,
                **error_params(op),
            },
            input_error_io(op),
            scratch_bytes=max(scratch, 4 * in_c),
            takes_step=True,
        )


def error_params(op: Op) -> dict[str, float]:
    """The C fields that every requantizing error kernel has."""
    return {"gain": op.float("gain"), "stream": op.int("stream")}


def input_error_io(op: Op) -> Mapping[str, str]:
    """The C fields of `tt_input_error_io`."""
    return {
        "folded": op.inputs[0],
        "folded_scale": op.inputs[1],
        "weights": op.inputs[2],
        "range": op.inputs[3],
        "error": op.outputs[0],
        "error_scale": op.outputs[1],
    }


class Conv2DUpdate(OpDef):
    """Weight gradient of a convolution, taken as a step at once."""

    kind = "conv2d_update"
    trains = True

    def window(self, op: Op, graph: Graph) -> Window:
        """The forward window."""
        kernel = op.ints("kernel")
        return Window.of(op, graph[op.inputs[0]].shape, (kernel[0], kernel[1]))

    def trained_channels(self, op: Op, graph: Graph) -> int:
        """Input channels of the gradient."""
        return graph[op.inputs[0]].shape[-1]

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """States keep their shapes."""
        return tuple(graph[name].shape for name in op.outputs)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """G[o, kh, kw, i] = sum over positions of u[o] * (x[i] - zero_point)."""
        x, u, scale, *states, first = inputs
        window = self.window(op, graph)
        in_c = self.trained_channels(op, graph)
        real = x.reshape(1, window.in_h, window.in_w, in_c).astype(np.float64)
        padded = window.pad(real - op.int("zero_point"))
        flat = u.reshape(window.positions, -1).astype(np.float64)
        gradient = np.zeros((flat.shape[1], window.kernel_h, window.kernel_w, in_c), np.int64)
        for row, column, (rows, columns) in window.taps():
            product = flat.T @ padded[rows, columns].reshape(window.positions, -1)
            gradient[:, row, column] = product.astype(np.int64)
        shape = (*graph[op.inputs[3]].shape[:-1], in_c)
        relative = np.float32(scale[0] * np.float32(op.float("gain")))
        centered = x.astype(np.int64) - op.int("zero_point")
        made = wu.Gradient.of(gradient.reshape(shape), 0, (relative, first[0]), flat, centered)
        return wu.run_update(op, made, [s for s in states if s is not None], step)

    def macs(self, op: Op, graph: Graph) -> int:
        """Positions times trained weights."""
        kernel = op.ints("kernel")
        channels = self.trained_channels(op, graph)
        return graph[op.inputs[1]].size * kernel[0] * kernel[1] * channels

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_conv2d_update`; the plain kernel keeps the gradient of one tap's input channels."""
        trained = self.trained_channels(op, graph)
        window = self.window(op, graph)
        block, scratch = update_scratch(window.positions, trained)
        return KernelCall(
            "tt_conv2d_update",
            {
                "window": window.params,
                "trained_channels": trained,
                "block": block,
                "in_c": graph[op.inputs[3]].shape[-1],
                "out_c": graph[op.inputs[1]].shape[-1],
                "input_zero_point": op.int("zero_point"),
                **wu.channel_params(op),
                "rule": wu.update_params(op, graph),
            },
            update_io(op),
            scratch_bytes=max(scratch, 4 * trained),
            takes_step=True,
        )


def update_io(op: Op) -> Mapping[str, str]:
    """The C fields of `tt_update_io`."""
    return {
        "input": op.inputs[0],
        "folded": op.inputs[1],
        "folded_scale": op.inputs[2],
        "first_scale": op.inputs[-1],
        **wu.update_io(op, 3),
    }


class GatherChannels(OpDef):
    """Copy chosen channels of an activation, those of an input to be kept for the backward pass."""

    kind = "gather_channels"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """[..., chosen]."""
        del graph
        return (op.ints("out_shape"),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """x[..., channels]."""
        del graph, step
        rows = inputs[0].reshape(-1, op.int("in_channels"))
        return (rows[:, list(op.ints("channels"))].reshape(op.ints("out_shape")),)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_gather_channels`."""
        x = graph[op.inputs[0]]
        channels = op.ints("channels")
        return KernelCall(
            "tt_gather_channels",
            {
                "positions": x.size // op.int("in_channels"),
                "in_c": op.int("in_channels"),
                "out_c": len(channels),
                "channels": np.array(channels, np.uint16),
            },
            {"input": op.inputs[0], "output": op.outputs[0]},
        )
