"""RELU and RELU6 as operators of their own, with TFLite's rescale to the output's scale.

Backward only the clamp matters: errors are in real units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tinytrain.ir import Array, Graph, Op, Tensor
from tinytrain.numeric.fixed_point import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    wrap_int32,
)
from tinytrain.numeric.quantize import activation_range
from tinytrain.ops.base import GradBuilder, KernelCall, OpDef, Step
from tinytrain.ops.checks import int8_problems, ratio_problems
from tinytrain.ops.clamp import Bounds, masked_error, reachable_bounds, value_range


class Rescale(OpDef):
    """Base of unary operators that only rescale and clamp."""

    in_place = ((0, 0),)
    activation: ClassVar[str] = "NONE"

    def ratio(self, x: Tensor, out: Tensor) -> float:
        """TFLite divides the scales of RELU in float32, those of QUANTIZE in double."""
        return float(np.float32(x.q.scale0) / np.float32(out.q.scale0))

    def bounds(self, out: Tensor) -> Bounds:
        """The clamp, in the output's units."""
        return activation_range(self.activation, out.q)

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8 input and output."""
        found = int8_problems(op, graph)
        return found or ratio_problems(self.ratio(graph[op.inputs[0]], graph[op.outputs[0]]))

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The input's."""
        return (graph[op.inputs[0]].shape,)

    def unclamped(self, op: Op, graph: Graph, x: Array) -> Array:
        """The rescaled input, int64."""
        source, out = graph[op.inputs[0]], graph[op.outputs[0]]
        centred = x.astype(np.int64) - source.q.zero_point
        numbers = quantize_multiplier(self.ratio(source, out))
        scaled = multiply_by_quantized_multiplier(centred, *numbers)
        return wrap_int32(scaled + out.q.zero_point)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Rescale, clamp."""
        del step
        low, high = self.bounds(graph[op.outputs[0]])
        return (np.clip(self.unclamped(op, graph, inputs[0]), low, high).astype(np.int8),)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """The same error, 0 where the output was clamped."""
        if not builder.needs_error(op.inputs[0]):
            return
        graph = builder.graph
        corners = np.array(value_range(graph[op.inputs[0]]))
        extremes = self.unclamped(op, graph, corners).tolist()
        bounds = reachable_bounds(extremes, self.bounds(graph[op.outputs[0]]))
        builder.add_error(op.inputs[0], masked_error(builder, op, bounds))

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_rescale_s8`."""
        x, out = graph[op.inputs[0]], graph[op.outputs[0]]
        multiplier, shift = quantize_multiplier(self.ratio(x, out))
        low, high = self.bounds(out)
        return KernelCall(
            "tt_rescale_s8",
            {
                "count": out.size,
                "input_zero_point": x.q.zero_point,
                "multiplier": multiplier,
                "shift": shift,
                "zero_point": out.q.zero_point,
                "act_min": low,
                "act_max": high,
            },
            {"input": op.inputs[0], "output": op.outputs[0]},
        )


class Relu(Rescale):
    """max(x, 0)."""

    kind = "relu"
    tflite = "RELU"
    activation = "RELU"


class Relu6(Rescale):
    """min(max(x, 0), 6)."""

    kind = "relu6"
    tflite = "RELU6"
    activation = "RELU6"
