"""MUL: forward, and the error of one operand, which is that of the product times the other operand.

Source: TFLite's int8 specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tflite.MulOptions import MulOptions

from tinytrain.ir import Array, Attr, Graph, Op, Tensor
from tinytrain.numeric.fixed_point import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    wrap_int32,
)
from tinytrain.numeric.quantize import activation_range
from tinytrain.ops.add import pair_params, too_many_repeats
from tinytrain.ops.base import Error, GradBuilder, KernelCall, OpDef, Step, TfliteOp
from tinytrain.ops.broadcast import Reduction, broadcast_problems, reduced_axes
from tinytrain.ops.checks import MAX_RANK, int8_problems, ratio_problems
from tinytrain.ops.clamp import masked_error, reachable_bounds, value_range
from tinytrain.ops.fold_error import requantize_errors
from tinytrain.ops.geometry import activation_name, activation_problems

MAX_REDUCED = 1 << 16  # products of 128 and 255 that an int32 can sum


def product_ratio(a: Tensor, b: Tensor, out: Tensor) -> float:
    """s_a * s_b / s_out in double precision from float32 scales."""
    scales = [float(np.float32(t.q.scale0)) for t in (a, b, out)]
    return scales[0] * scales[1] / scales[2]


def unclamped(a: Array, b: Array, tensors: Sequence[Tensor]) -> Array:
    """The product before the clamp, int64; `tensors` are a, b and the output."""
    zero_a, zero_b, zero_out = (t.q.zero_point for t in tensors)
    product = (a.astype(np.int64) - zero_a) * (b.astype(np.int64) - zero_b)
    ratio = product_ratio(tensors[0], tensors[1], tensors[2])
    scaled = multiply_by_quantized_multiplier(product, *quantize_multiplier(ratio))
    return wrap_int32(scaled + zero_out)


class Mul(OpDef):
    """Elementwise product, either operand broadcast, fused activation."""

    kind = "mul"
    tflite = "MUL"
    tflite_inputs = (2, 2)
    in_place = ((0, 0), (1, 0))

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """Activation."""
        options = node.options(MulOptions)
        return {"activation": activation_name(options.FusedActivationFunction())}

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8 operands of at most four dimensions that broadcast; either may be a constant."""
        a, b = graph[op.inputs[0]], graph[op.inputs[1]]
        found = activation_problems(op) + int8_problems(op, graph)
        found += broadcast_problems(a.shape, b.shape)
        return found or ratio_problems(product_ratio(a, b, graph[op.outputs[0]]))

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """NumPy's broadcast shape."""
        return (np.broadcast_shapes(graph[op.inputs[0]].shape, graph[op.inputs[1]].shape),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Multiply, requantize, clamp."""
        del step
        tensors = _operands(op, graph)
        low, high = activation_range(op.str("activation"), tensors[2].q)
        result = unclamped(inputs[0], inputs[1], tensors)
        return (np.clip(result, low, high).astype(np.int8),)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """Mask, then one product an operand that needs its error."""
        tensors = _operands(op, builder.graph)
        wanted = [i for i in (0, 1) if builder.needs_error(op.inputs[i])]
        if not wanted:
            return
        corners_a, corners_b = (np.array(value_range(t)) for t in tensors[:2])
        extremes = unclamped(corners_a[:, None], corners_b, tensors)
        clamp = activation_range(op.str("activation"), tensors[2].q)
        bounds = reachable_bounds(extremes.reshape(-1).tolist(), clamp)
        error = masked_error(builder, op, bounds)
        for i in wanted:
            builder.add_error(op.inputs[i], self._operand_error(op, builder, error, i))

    def _operand_error(self, op: Op, builder: GradBuilder, error: Error, index: int) -> Error:
        operand, other = op.inputs[index], op.inputs[1 - index]
        graph = builder.graph
        shape = graph[operand].shape
        count = Reduction.of(graph[op.outputs[0]].shape, shape).count
        if count > MAX_REDUCED:
            raise too_many_repeats(operand, count, MAX_REDUCED)
        result = builder.new_error(operand, f"error_{index}")
        amax = builder.new_range(f"error_{index}")
        builder.emit(
            "mul_input_error",
            (error.tensor, error.scale, other, amax),
            (*result[:2], amax),
            gain=error.gain * graph[other].q.scale0,
            stream=builder.stream(),
            zero_point=graph[other].q.zero_point,
            out_shape=shape,
        )
        return result

    def macs(self, op: Op, graph: Graph) -> int:
        """One an element."""
        return graph[op.outputs[0]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_mul_s8`."""
        a, b, out = _operands(op, graph)
        multiplier, shift = quantize_multiplier(product_ratio(a, b, out))
        low, high = activation_range(op.str("activation"), out.q)
        return KernelCall(
            "tt_mul_s8",
            {
                "loops": pair_params(a, b, out),
                "multiplier": multiplier,
                "shift": shift,
                "zero_point_a": a.q.zero_point,
                "zero_point_b": b.q.zero_point,
                "zero_point": out.q.zero_point,
                "act_min": low,
                "act_max": high,
            },
            {"a": op.inputs[0], "b": op.inputs[1], "output": op.outputs[0]},
        )


def _operands(op: Op, graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
    return graph[op.inputs[0]], graph[op.inputs[1]], graph[op.outputs[0]]


class MulInputError(OpDef):
    """acc = sum of e * (other - zero_point) over the places where the operand was used."""

    kind = "mul_input_error"
    in_place = ((0, 0),)

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The operand's; scale; range."""
        del graph
        return (op.ints("out_shape"), (1,), (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Multiply, sum, requantize; the gain holds the other operand's scale."""
        del graph
        error, scale, other, amax = inputs
        shape = op.ints("out_shape")
        product = error.astype(np.int64) * (other.astype(np.int64) - op.int("zero_point"))
        acc = product.sum(axis=reduced_axes(error.shape, shape)).reshape(shape)
        unit = np.float32(scale[0] * np.float32(op.float("gain")))
        return requantize_errors(acc, unit, amax, op, step)

    def macs(self, op: Op, graph: Graph) -> int:
        """One an element of the product."""
        return graph[op.inputs[0]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_mul_input_error`."""
        full, other = graph[op.inputs[0]].shape, graph[op.inputs[2]].shape
        reduction = Reduction.of(full, op.ints("out_shape"), other)
        kept = [(1, 0, 0)] * (MAX_RANK - len(reduction.kept)) + list(reduction.kept)
        reduced = [(1, 0, 0)] * (2 - len(reduction.reduced)) + list(reduction.reduced)
        return KernelCall(
            "tt_mul_input_error",
            {
                "kept": _column(kept, 0),
                "kept_strides": _column(kept, 1),
                "kept_strides_other": _column(kept, 2),
                "reduced": _column(reduced, 0),
                "reduced_strides": _column(reduced, 1),
                "reduced_strides_other": _column(reduced, 2),
                "other_zero_point": op.int("zero_point"),
                "gain": op.float("gain"),
                "stream": op.int("stream"),
            },
            {
                "error": op.inputs[0],
                "error_scale": op.inputs[1],
                "other": op.inputs[2],
                "range": op.inputs[3],
                "result": op.outputs[0],
                "result_scale": op.outputs[1],
            },
            takes_step=True,
        )


def _column(rows: Sequence[tuple[int, int, int]], index: int) -> Array:
    return np.array([row[index] for row in rows], np.int32)
