"""ADD: forward, and the error of an operand that was repeated (`reduce_error`).

The error passes to both operands as it is, in real units; only a repeated operand needs a sum.
Source: TFLite's int8 specification (both operands are brought to half the larger scale, with 20
more bits).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tflite.AddOptions import AddOptions

from tinytrain.errors import InputError
from tinytrain.ir import Array, Attr, Graph, Op, Tensor
from tinytrain.numeric.fixed_point import multiply_by_quantized_multiplier, quantize_multiplier
from tinytrain.numeric.quantize import activation_range
from tinytrain.ops.base import Error, GradBuilder, KernelCall, OpDef, Param, Step, TfliteOp
from tinytrain.ops.broadcast import Loops, Reduction, broadcast_problems, reduced_axes
from tinytrain.ops.checks import int8_problems
from tinytrain.ops.clamp import masked_error, reachable_bounds, value_range
from tinytrain.ops.fold_error import requantize_errors
from tinytrain.ops.geometry import activation_name, activation_problems
from tinytrain.ops.reshape import reshaped_error

LEFT_SHIFT = 20
MAX_REDUCED = 1 << 22


@dataclass(frozen=True)
class Sum:
    """The numbers of one addition, as (multiplier, shift) pairs and zero points."""

    a: tuple[int, int]
    b: tuple[int, int]
    out: tuple[int, int]
    zero_points: tuple[int, int, int]

    @classmethod
    def of(cls, a: Tensor, b: Tensor, out: Tensor) -> Sum:
        """TFLite's rule, in double precision from float32 scales."""
        scale_a, scale_b = float(np.float32(a.q.scale0)), float(np.float32(b.q.scale0))
        twice_max = 2.0 * max(scale_a, scale_b)
        return cls(
            quantize_multiplier(scale_a / twice_max),
            quantize_multiplier(scale_b / twice_max),
            quantize_multiplier(output_ratio(a, b, out)),
            (a.q.zero_point, b.q.zero_point, out.q.zero_point),
        )

    def unclamped(self, a: Array, b: Array) -> Array:
        """The result before the clamp, int64."""
        zero_a, zero_b, zero_out = self.zero_points
        shifted_a = (a.astype(np.int64) - zero_a) << LEFT_SHIFT
        shifted_b = (b.astype(np.int64) - zero_b) << LEFT_SHIFT
        total = multiply_by_quantized_multiplier(
            shifted_a, *self.a
        ) + multiply_by_quantized_multiplier(shifted_b, *self.b)
        return multiply_by_quantized_multiplier(total, *self.out) + zero_out


def output_ratio(a: Tensor, b: Tensor, out: Tensor) -> float:
    """Real size of a unit of the sum over that of the output."""
    twice_max = 2.0 * float(np.float32(max(a.q.scale0, b.q.scale0)))
    return twice_max / ((1 << LEFT_SHIFT) * float(np.float32(out.q.scale0)))


def emit_reduce(builder: GradBuilder, error: Error, op: Op, index: int) -> Error:
    """The error of an operand of which each element was used at several places of the output."""
    operand = op.inputs[index]
    full, shape = builder.graph[op.outputs[0]].shape, builder.graph[operand].shape
    count = Reduction.of(full, shape).count
    if count == 1:
        return reshaped_error(builder, error, operand, full)
    if count > MAX_REDUCED:
        raise too_many_repeats(operand, count, MAX_REDUCED)
    reduced = builder.new_error(operand, f"reduced_{index}")
    amax = builder.new_range(f"reduced_{index}")
    builder.emit(
        "reduce_error",
        (error.tensor, error.scale, amax),
        (*reduced[:2], amax),
        gain=error.gain,
        stream=builder.stream(),
        out_shape=shape,
    )
    return reduced


def too_many_repeats(operand: str, count: int, limit: int) -> InputError:
    """The error where an accumulator could leave int32."""
    return InputError(
        "unsupported-scheme",
        "train",
        f"the error of an operand that is repeated {count} times, at most {limit} is supported",
        where=operand,
        hint="train only what comes after this operator",
    )


class Add(OpDef):
    """Elementwise sum, either operand broadcast, fused activation."""

    kind = "add"
    tflite = "ADD"
    tflite_inputs = (2, 2)
    in_place = ((0, 0), (1, 0))

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """Activation."""
        options = node.options(AddOptions)
        return {"activation": activation_name(options.FusedActivationFunction())}

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8 operands of at most four dimensions that broadcast; either may be a constant."""
        a, b, out = graph[op.inputs[0]], graph[op.inputs[1]], graph[op.outputs[0]]
        found = activation_problems(op) + int8_problems(op, graph)
        found += broadcast_problems(a.shape, b.shape)
        if not found and output_ratio(a, b, out) >= 1.0:
            found.append("output scale too small beside the operands' scales")
        return found

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """NumPy's broadcast shape."""
        return (np.broadcast_shapes(graph[op.inputs[0]].shape, graph[op.inputs[1]].shape),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Rescale both, add, rescale, clamp."""
        del step
        out = graph[op.outputs[0]]
        low, high = activation_range(op.str("activation"), out.q)
        result = self._sum(op, graph).unclamped(inputs[0], inputs[1])
        return (np.clip(result, low, high).astype(np.int8),)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """Mask, pass on to both operands, summed where an operand was repeated."""
        graph = builder.graph
        out = graph[op.outputs[0]]
        wanted = [i for i, name in enumerate(op.inputs) if builder.needs_error(name)]
        if not wanted:
            return
        corners = [value_range(graph[name]) for name in op.inputs]
        extremes = self._sum(op, graph).unclamped(*(np.array(c) for c in corners))
        clamp = activation_range(op.str("activation"), out.q)
        error = masked_error(builder, op, reachable_bounds(extremes.tolist(), clamp))
        for i in wanted:
            builder.add_error(op.inputs[i], emit_reduce(builder, error, op, i))

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_add_s8`."""
        a, b, out = graph[op.inputs[0]], graph[op.inputs[1]], graph[op.outputs[0]]
        numbers = self._sum(op, graph)
        low, high = activation_range(op.str("activation"), out.q)
        return KernelCall(
            "tt_add_s8",
            {
                "loops": pair_params(a, b, out),
                "multiplier_a": numbers.a[0],
                "shift_a": numbers.a[1],
                "multiplier_b": numbers.b[0],
                "shift_b": numbers.b[1],
                "multiplier": numbers.out[0],
                "shift": numbers.out[1],
                "zero_point_a": a.q.zero_point,
                "zero_point_b": b.q.zero_point,
                "zero_point": out.q.zero_point,
                "act_min": low,
                "act_max": high,
            },
            {"a": op.inputs[0], "b": op.inputs[1], "output": op.outputs[0]},
        )

    def _sum(self, op: Op, graph: Graph) -> Sum:
        return Sum.of(graph[op.inputs[0]], graph[op.inputs[1]], graph[op.outputs[0]])


def pair_params(a: Tensor, b: Tensor, out: Tensor) -> Mapping[str, Param]:
    """The C fields of `tt_pair_loops`: how two operands run along an output."""
    loops = Loops.over(out.shape, a.shape, b.shape)
    return {
        "extents": loops.table(loops.extents, 1),
        "strides_a": loops.table(loops.strides[0], 0),
        "strides_b": loops.table(loops.strides[1], 0),
    }


class ReduceError(OpDef):
    """Sum the error over the places where an operand's element was used."""

    kind = "reduce_error"
    in_place = ((0, 0),)

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The operand's; scale; range."""
        del graph
        return (op.ints("out_shape"), (1,), (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Plain sums."""
        del graph
        error, scale, amax = inputs
        shape = op.ints("out_shape")
        acc = error.astype(np.int64).sum(axis=reduced_axes(error.shape, shape)).reshape(shape)
        unit = np.float32(scale[0] * np.float32(op.float("gain")))
        return requantize_errors(acc, unit, amax, op, step)

    def macs(self, op: Op, graph: Graph) -> int:
        """One addition an element is counted as one."""
        return graph[op.inputs[0]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_reduce_error`."""
        reduction = Reduction.of(graph[op.inputs[0]].shape, op.ints("out_shape"))
        return KernelCall(
            "tt_reduce_error",
            {
                "reduction": reduction.params,
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
            takes_step=True,
        )
