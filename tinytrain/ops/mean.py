"""MEAN over any axes: forward, and `spread_error`, its gradient.

Source: TFLite's reference (the requantization multiplier takes 1/count in, so that one rounding
remains). Backward the integers are repeated and the scale is divided by the count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tflite.ReducerOptions import ReducerOptions

from tinytrain.ir import Array, Attr, Graph, Op, Tensor
from tinytrain.numeric.fixed_point import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    wrap_int32,
)
from tinytrain.numeric.quantize import INT8_MAX, INT8_MIN
from tinytrain.ops.base import GradBuilder, KernelCall, OpDef, Step, TfliteOp
from tinytrain.ops.broadcast import Reduction
from tinytrain.ops.checks import int8_problems, ratio_problems
from tinytrain.ops.clamp import masked_error, reachable_bounds

MAX_COUNT = 1 << 23  # differences of 255 that an int32 can sum


def kept_shape(op: Op, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The input's shape with the reduced axes at 1."""
    return tuple(1 if i in op.ints("axes") else n for i, n in enumerate(shape))


def scale_ratio(x: Tensor, out: Tensor) -> float:
    """s_x / s_out in double precision from float32 scales."""
    return float(np.float32(x.q.scale0)) / float(np.float32(out.q.scale0))


def mean_multiplier(x: Tensor, out: Tensor, count: int) -> tuple[int, int]:
    """s_x / (s_out * count) as TFLite splits it: the multiplier is divided, not the ratio."""
    multiplier, shift = quantize_multiplier(scale_ratio(x, out))
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << extra) // count, shift - extra


class Mean(OpDef):
    """Sum over the axes, requantized with 1/count."""

    kind = "mean"
    tflite = "MEAN"
    tflite_inputs = (2, 2)
    in_place = ((0, 0),)

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """Axes, counted from the front, sorted, without duplicates; None if not constant."""
        keep = bool(node.options(ReducerOptions).KeepDims())
        x, axes = node.inputs[0], node.inputs[1]
        if x is None or axes is None or axes.data is None or axes.dtype != "int32":
            return {"axes": None, "keep_dims": keep}
        rank = len(x.shape)
        given = (int(a) for a in axes.data.reshape(-1))
        return {"axes": tuple(sorted({a + rank if a < 0 else a for a in given})), "keep_dims": keep}

    def operands(self, node: TfliteOp) -> Sequence[Tensor | None]:
        """The data alone."""
        return node.inputs[:1]

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8; constant axes, at most two groups of neighbours; up to 2^23 values a mean."""
        if op.attrs["axes"] is None:
            return ["computed axes, an int32 constant is needed"]
        x = graph[op.inputs[0]]
        found = int8_problems(op, graph)
        if any(not 0 <= a < len(x.shape) for a in op.ints("axes")):
            return [*found, f"axes {op.ints('axes')} of an input of {len(x.shape)} dimensions"]
        reduction = self._reduction(op, graph)
        if not reduction.fits:
            found.append("more than two groups of reduced or of kept axes")
        if reduction.count > MAX_COUNT:
            found.append(f"mean of {reduction.count} values, at most {MAX_COUNT} are supported")
        return found or ratio_problems(scale_ratio(x, graph[op.outputs[0]]))

    @staticmethod
    def _reduction(op: Op, graph: Graph) -> Reduction:
        shape = graph[op.inputs[0]].shape
        return Reduction.of(shape, kept_shape(op, shape))

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """Reduced axes are 1, or gone."""
        shape = graph[op.inputs[0]].shape
        if op.attrs["keep_dims"]:
            return (kept_shape(op, shape),)
        return (tuple(n for i, n in enumerate(shape) if i not in op.ints("axes")),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Exact sums, one requantization."""
        del step
        out = graph[op.outputs[0]]
        total = inputs[0].astype(np.int64).sum(axis=op.ints("axes")) - self._offset(op, graph)
        result = np.clip(self._requantized(op, graph, total), INT8_MIN, INT8_MAX)
        return (result.reshape(out.shape).astype(np.int8),)

    def _offset(self, op: Op, graph: Graph) -> int:
        return graph[op.inputs[0]].q.zero_point * self._reduction(op, graph).count

    def _requantized(self, op: Op, graph: Graph, total: Array) -> Array:
        x, out = graph[op.inputs[0]], graph[op.outputs[0]]
        multiplier, shift = mean_multiplier(x, out, self._reduction(op, graph).count)
        scaled = multiply_by_quantized_multiplier(total, multiplier, shift)
        return wrap_int32(scaled + out.q.zero_point)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """Every input takes the error of its mean, over the count."""
        x, graph = op.inputs[0], builder.graph
        if not builder.needs_error(x):
            return
        count, shape = self._reduction(op, graph).count, graph[x].shape
        sums = np.array([INT8_MIN, INT8_MAX], np.int64) * count - self._offset(op, graph)
        bounds = reachable_bounds(self._requantized(op, graph, sums).tolist(), (INT8_MIN, INT8_MAX))
        error = masked_error(builder, op, bounds)
        spread = builder.new_tensor("spread", shape)
        builder.emit(
            "spread_error",
            (error.tensor,),
            (spread,),
            out_shape=shape,
            kept_shape=kept_shape(op, shape),
        )
        builder.add_error(x, error._replace(tensor=spread).times(1.0 / count))

    def macs(self, op: Op, graph: Graph) -> int:
        """One addition an element is counted as one."""
        return graph[op.inputs[0]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_mean_s8`."""
        x, out = graph[op.inputs[0]], graph[op.outputs[0]]
        reduction = self._reduction(op, graph)
        multiplier, shift = mean_multiplier(x, out, reduction.count)
        return KernelCall(
            "tt_mean_s8",
            {
                "reduction": reduction.params,
                "input_zero_point": x.q.zero_point,
                "multiplier": multiplier,
                "shift": shift,
                "zero_point": out.q.zero_point,
            },
            {"input": op.inputs[0], "output": op.outputs[0]},
        )


class SpreadError(OpDef):
    """Repeat errors along axes; the scale stays."""

    kind = "spread_error"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The larger shape."""
        del graph
        return (op.ints("out_shape"),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """NumPy's broadcast."""
        del graph, step
        small = inputs[0].reshape(op.ints("kept_shape"))
        return (np.broadcast_to(small, op.ints("out_shape")).copy(),)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_spread_error`."""
        reduction = Reduction.of(op.ints("out_shape"), op.ints("kept_shape"))
        return KernelCall(
            "tt_spread_error",
            {"reduction": reduction.params},
            {"error": op.inputs[0], "result": op.outputs[0]},
        )
