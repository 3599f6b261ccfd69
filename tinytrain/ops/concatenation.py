"""CONCATENATION along any axis, all parts at one scale; backward each part is a crop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tflite.ConcatenationOptions import ConcatenationOptions

from tinytrain.ir import Array, Attr, Graph, Op
from tinytrain.ops.base import GradBuilder, KernelCall, OpDef, Step, TfliteOp
from tinytrain.ops.checks import MAX_RANK, int8_problems, same_quantization_problems
from tinytrain.ops.geometry import activation_name
from tinytrain.ops.pad import emit_crop

MAX_PARTS = 16


class Concatenation(OpDef):
    """Parts side by side."""

    kind = "concatenation"
    tflite = "CONCATENATION"
    tflite_inputs = (1, 65535)

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """The axis, counted from the front, and the activation."""
        options = node.options(ConcatenationOptions)
        axis, rank = int(options.Axis()), len(node.outputs[0].shape)
        return {
            "axis": axis + rank if axis < 0 else axis,
            "activation": activation_name(options.FusedActivationFunction()),
        }

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """At most 16 int8 parts of at most four dimensions at the output's scale, no activation."""
        found = int8_problems(op, graph)
        if found:
            return found
        parts, out = [graph[name] for name in op.inputs], graph[op.outputs[0]]
        found += same_quantization_problems((*parts, out))
        if op.attrs["activation"] != "NONE":
            found.append(f"fused activation {op.attrs['activation']}")
        if not 1 <= len(parts) <= MAX_PARTS:
            found.append(f"{len(parts)} parts, 1 to {MAX_PARTS} are supported")
        rank, axis = len(out.shape), op.int("axis")
        if not 0 <= axis < rank <= MAX_RANK:
            return [*found, f"axis {axis} of {rank} dimensions, at most {MAX_RANK} are supported"]
        others = {(*p.shape[:axis], *p.shape[axis + 1 :]) for p in parts}
        if len(others) > 1 or any(len(p.shape) != rank for p in parts):
            found.append("parts whose shapes differ beside the axis")
        return found

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The parts' sizes added along the axis."""
        axis = op.int("axis")
        shapes = [graph[name].shape for name in op.inputs]
        total = sum(shape[axis] for shape in shapes)
        return ((*shapes[0][:axis], total, *shapes[0][axis + 1 :]),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Plain copies."""
        del graph, step
        return (np.concatenate(list(inputs), axis=op.int("axis")),)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """Each part takes its slice of the error."""
        graph, axis = builder.graph, op.int("axis")
        rank, start = len(graph[op.outputs[0]].shape), 0
        for i, name in enumerate(op.inputs):
            if builder.needs_error(name):
                begin = tuple(start if k == axis else 0 for k in range(rank))
                error = builder.error_of(op.outputs[0])
                if len(op.inputs) > 1:
                    error = emit_crop(builder, error, name, begin, f"part_{i}")
                builder.add_error(name, error)
            start += graph[name].shape[axis]

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_concatenation_s8`."""
        axis, shape = op.int("axis"), graph[op.outputs[0]].shape
        outer = int(np.prod(shape[:axis], dtype=np.int64))
        widths = [graph[name].size // outer for name in op.inputs]
        io = {f"input_{i}": name for i, name in enumerate(op.inputs)}
        return KernelCall(
            "tt_concatenation_s8",
            {"parts": len(widths), "outer": outer, "widths": np.array(widths, np.int32)},
            {**io, "output": op.outputs[0]},
        )
