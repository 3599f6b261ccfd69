"""AVERAGE_POOL_2D and MAX_POOL_2D: forward, and the error of their input.

Windows that do not overlap copy errors (`*_spread`, `*_route`); overlapping ones sum them
(`*_input_error`). Padding never counts. Source: TFLite's int8 reference kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tflite.Pool2DOptions import Pool2DOptions

from tinytrain.ir import Array, Attr, Graph, Op, Tensor
from tinytrain.numeric.quantize import INT8_MAX, INT8_MIN, activation_range
from tinytrain.ops.base import Error, GradBuilder, KernelCall, OpDef, Param, Step, TfliteOp
from tinytrain.ops.checks import int8_problems
from tinytrain.ops.clamp import Bounds, masked_error, reachable_bounds
from tinytrain.ops.fold_error import requantize_errors
from tinytrain.ops.geometry import Window, activation_problems, window_attrs, window_problems

SCALE_TOLERANCE = 1e-6  # TFLite's
WEIGHT_BITS = 10
OUTSIDE = INT8_MIN - 1


def pool_window(op: Op, shape: tuple[int, ...]) -> Window:
    """The window of a pool, from its attribute `kernel`."""
    height, width = op.ints("kernel")
    return Window.of(op, shape, (height, width))


def window_counts(window: Window) -> Array:
    """Elements of the input in each window, [out_h, out_w]."""
    inside = window.pad(np.ones((1, window.in_h, window.in_w, 1), np.int64))[..., 0]
    counts = np.zeros((window.out_h, window.out_w), np.int64)
    for _, _, (rows, columns) in window.taps():
        counts += inside[rows, columns]
    return counts


def overlap(window: Window) -> int:
    """Upper bound of the number of windows that see one element."""
    rows = min(-(-window.kernel_h // window.stride_h), window.out_h)
    columns = min(-(-window.kernel_w // window.stride_w), window.out_w)
    return rows * columns


class Pool(OpDef):
    """Base of both pools."""

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """Window size, stride, padding, activation."""
        options = node.options(Pool2DOptions)
        return {
            **window_attrs(options),
            "kernel": (int(options.FilterHeight()), int(options.FilterWidth())),
        }

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8 of rank 4, one scale for input and output, sizes and strides of 1 and above."""
        x, out = graph[op.inputs[0]], graph[op.outputs[0]]
        height, width = op.ints("kernel")
        found = activation_problems(op) + int8_problems(op, graph)
        found += window_problems(op, x.shape, (height, width))
        if not found and (
            abs(x.q.scale0 - out.q.scale0) > SCALE_TOLERANCE or x.q.zero_point != out.q.zero_point
        ):
            found.append("input and output differ in scale or zero point")
        return found

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """[1, out_h, out_w, channels]."""
        shape = graph[op.inputs[0]].shape
        window = pool_window(op, shape)
        return ((1, window.out_h, window.out_w, shape[3]),)

    def clamped(self, op: Op, out: Tensor, result: Array) -> Array:
        """The pooled values within the activation's range, [1, out_h, out_w, channels] int8."""
        low, high = activation_range(op.str("activation"), out.q)
        return np.clip(result, low, high).astype(np.int8)[None]

    def masked(self, op: Op, builder: GradBuilder) -> Error:
        """The error of the output without what a fused activation clamped."""
        out = builder.graph[op.outputs[0]]
        clamp: Bounds = activation_range(op.str("activation"), out.q)
        return masked_error(builder, op, reachable_bounds((INT8_MIN, INT8_MAX), clamp))

    def macs(self, op: Op, graph: Graph) -> int:
        """One a tap is counted."""
        height, width = op.ints("kernel")
        return graph[op.outputs[0]].size * height * width

    def pool_call(self, op: Op, graph: Graph, kernel: str) -> KernelCall:
        """A forward kernel's call."""
        x, out = graph[op.inputs[0]], graph[op.outputs[0]]
        low, high = activation_range(op.str("activation"), out.q)
        params: dict[str, Param] = {
            "window": pool_window(op, x.shape).params,
            "channels": x.shape[3],
            "act_min": low,
            "act_max": high,
        }
        return KernelCall(kernel, params, {"input": op.inputs[0], "output": op.outputs[0]})


def geometry_attrs(op: Op) -> dict[str, Attr]:
    """What a backward operator of a pool keeps of the forward one."""
    return {key: op.attrs[key] for key in ("stride", "dilation", "padding", "kernel")}


def disjoint(window: Window) -> bool:
    """Whether no element is in two windows."""
    return window.stride_h >= window.kernel_h and window.stride_w >= window.kernel_w


class AveragePool2D(Pool):
    """Mean over the window, rounded to nearest, halves away from zero."""

    kind = "average_pool2d"
    tflite = "AVERAGE_POOL_2D"

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Sum of raw integers over the number of elements inside."""
        del step
        window = pool_window(op, inputs[0].shape)
        padded = window.pad(inputs[0].astype(np.int64))
        total = np.zeros((window.out_h, window.out_w, inputs[0].shape[3]), np.int64)
        for _, _, (rows, columns) in window.taps():
            total += padded[rows, columns]
        counts = window_counts(window)[..., None]
        rounded = np.sign(total) * ((np.abs(total) + counts // 2) // counts)
        return (self.clamped(op, graph[op.outputs[0]], rounded),)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """e / count to every element of the window."""
        x = op.inputs[0]
        if not builder.needs_error(x):
            return
        shape = builder.graph[x].shape
        window = pool_window(op, shape)
        error = self.masked(op, builder)
        counts = window_counts(window)
        least, uniform = int(counts.min()), bool(np.all(counts == counts.min()))
        attrs: dict[str, Attr] = {"in_shape": shape, **geometry_attrs(op)}
        if uniform and disjoint(window):
            spread = builder.new_tensor("spread", shape)
            builder.emit("average_pool2d_spread", (error.tensor,), (spread,), **attrs)
            builder.add_error(x, error._replace(tensor=spread).times(1.0 / least))
            return
        bits = 0 if uniform else max(0, min(WEIGHT_BITS, 23 - overlap(window).bit_length()))
        result = builder.new_error(x, "error")
        amax = builder.new_range("error")
        builder.emit(
            "average_pool2d_input_error",
            (error.tensor, error.scale, amax),
            (*result[:2], amax),
            gain=error.gain / least / (1 << bits),
            numerator=least << bits,
            stream=builder.stream(),
            **attrs,
        )
        builder.add_error(x, result)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_average_pool2d_s8`."""
        return self.pool_call(op, graph, "tt_average_pool2d_s8")


class MaxPool2D(Pool):
    """Largest value of the window."""

    kind = "max_pool2d"
    tflite = "MAX_POOL_2D"

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Maximum over the elements inside."""
        del step
        window = pool_window(op, inputs[0].shape)
        padded = window.pad(inputs[0].astype(np.int64), OUTSIDE)
        largest = np.full((window.out_h, window.out_w, inputs[0].shape[3]), OUTSIDE, np.int64)
        for _, _, (rows, columns) in window.taps():
            largest = np.maximum(largest, padded[rows, columns])
        return (self.clamped(op, graph[op.outputs[0]], largest),)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """e to the first largest element of the window."""
        x, y = op.inputs[0], op.outputs[0]
        if not builder.needs_error(x):
            return
        shape = builder.graph[x].shape
        window = pool_window(op, shape)
        error = self.masked(op, builder)
        if disjoint(window):
            routed = builder.new_tensor("routed", shape)
            builder.emit("max_pool2d_route", (error.tensor, x, y), (routed,), **geometry_attrs(op))
            builder.add_error(x, error._replace(tensor=routed))
            return
        result = builder.new_error(x, "error")
        amax = builder.new_range("error")
        builder.emit(
            "max_pool2d_input_error",
            (error.tensor, error.scale, x, y, amax),
            (*result[:2], amax),
            gain=error.gain,
            stream=builder.stream(),
            **geometry_attrs(op),
        )
        builder.add_error(x, result)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_max_pool2d_s8`."""
        return self.pool_call(op, graph, "tt_max_pool2d_s8")


class AveragePoolSpread(OpDef):
    """Copy each error to its window; 0 between windows."""

    kind = "average_pool2d_spread"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The forward input's."""
        del graph
        return (op.ints("in_shape"),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Disjoint windows, so that the order does not matter."""
        del graph, step
        shape = op.ints("in_shape")
        window = pool_window(op, shape)
        padded = window.pad(np.zeros(shape, np.int8))
        for _, _, (rows, columns) in window.taps():
            padded[rows, columns] = inputs[0][0]
        return (np.ascontiguousarray(window.crop(padded)),)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_average_pool2d_spread`."""
        shape = op.ints("in_shape")
        return KernelCall(
            "tt_average_pool2d_spread",
            {"window": pool_window(op, shape).params, "channels": shape[3]},
            {"error": op.inputs[0], "result": op.outputs[0]},
        )


class AveragePoolInputError(OpDef):
    """acc = sum over the windows of an element of e * round(numerator / count)."""

    kind = "average_pool2d_input_error"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The forward input's; scale; range."""
        del graph
        return (op.ints("in_shape"), (1,), (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Scatter, crop, requantize."""
        del graph
        error, scale, amax = inputs
        shape = op.ints("in_shape")
        window = pool_window(op, shape)
        counts = window_counts(window)
        weighted = error[0].astype(np.int64) * window_weights(op, counts)[..., None]
        padded = window.pad(np.zeros(shape, np.int64))
        for _, _, (rows, columns) in window.taps():
            padded[rows, columns] += weighted
        unit = np.float32(scale[0] * np.float32(op.float("gain")))
        return requantize_errors(window.crop(padded), unit, amax, op, step)

    def macs(self, op: Op, graph: Graph) -> int:
        """As the forward pool."""
        height, width = op.ints("kernel")
        return graph[op.inputs[0]].size * height * width

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_average_pool2d_input_error`; scratch holds one position's accumulators."""
        shape = op.ints("in_shape")
        return KernelCall(
            "tt_average_pool2d_input_error",
            {
                "window": pool_window(op, shape).params,
                "channels": shape[3],
                "numerator": op.int("numerator"),
                "gain": op.float("gain"),
                "stream": op.int("stream"),
            },
            {
                "error": op.inputs[0],
                "error_scale": op.inputs[1],
                "range": op.inputs[2],
                "result": op.outputs[0],
                "result_scale": op.outputs[1],
            },
            scratch_bytes=4 * shape[3],
            takes_step=True,
        )


def window_weights(op: Op, counts: Array) -> Array:
    """Weight of each window: numerator / count to nearest; 1 where all counts are equal."""
    return (op.int("numerator") + counts // 2) // counts


class MaxPoolRoute(OpDef):
    """Copy each error to the first largest element of its window; 0 elsewhere."""

    kind = "max_pool2d_route"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The forward input's."""
        return (graph[op.inputs[1]].shape,)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Found again from input and output."""
        del graph, step
        return (routed(op, inputs[0], inputs[1], inputs[2]).astype(np.int8),)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_max_pool2d_route`."""
        shape = graph[op.inputs[1]].shape
        return KernelCall(
            "tt_max_pool2d_route",
            {"window": pool_window(op, shape).params, "channels": shape[3]},
            {
                "error": op.inputs[0],
                "input": op.inputs[1],
                "forward_output": op.inputs[2],
                "result": op.outputs[0],
            },
        )


def routed(op: Op, error: Array, x: Array, y: Array) -> Array:
    """Sum of the errors of the windows whose first largest element this is, int64."""
    window = pool_window(op, x.shape)
    padded = window.pad(x.astype(np.int64), OUTSIDE)
    acc = np.zeros_like(padded)
    rest = error[0].astype(np.int64)
    for _, _, (rows, columns) in window.taps():
        hit = padded[rows, columns] == y[0]
        acc[rows, columns] += np.where(hit, rest, 0)
        rest = np.where(hit, 0, rest)
    return np.ascontiguousarray(window.crop(acc))


class MaxPoolInputError(OpDef):
    """As `max_pool2d_route` with overlapping windows: sums, requantized."""

    kind = "max_pool2d_input_error"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The forward input's; scale; range."""
        return (graph[op.inputs[2]].shape, (1,), (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Found again from input and output."""
        del graph
        error, scale, x, y, amax = inputs
        unit = np.float32(scale[0] * np.float32(op.float("gain")))
        return requantize_errors(routed(op, error, x, y), unit, amax, op, step)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_max_pool2d_input_error`."""
        shape = graph[op.inputs[2]].shape
        return KernelCall(
            "tt_max_pool2d_input_error",
            {
                "window": pool_window(op, shape).params,
                "channels": shape[3],
                "gain": op.float("gain"),
                "stream": op.int("stream"),
            },
            {
                "error": op.inputs[0],
                "error_scale": op.inputs[1],
                "input": op.inputs[2],
                "forward_output": op.inputs[3],
                "range": op.inputs[4],
                "result": op.outputs[0],
                "result_scale": op.outputs[1],
            },
            takes_step=True,
        )
