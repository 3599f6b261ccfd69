"""RESHAPE: the same bytes under another shape, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tflite.ReshapeOptions import ReshapeOptions

from tinytrain.ir import Array, Attr, Graph, Op, Tensor
from tinytrain.ops.base import Error, GradBuilder, KernelCall, OpDef, Step, TfliteOp
from tinytrain.ops.checks import int8_problems, same_quantization_problems


def reshaped_error(builder: GradBuilder, error: Error, like: str, shape: tuple[int, ...]) -> Error:
    """An error of shape `shape` as one of the shape of tensor `like`; no data moves."""
    wanted = builder.graph[like].shape
    if wanted == shape:
        return error
    result = builder.new_tensor("reshaped", wanted)
    builder.emit("reshape", (error.tensor,), (result,), shape=wanted)
    return error._replace(tensor=result)


class Reshape(OpDef):
    """Copies; moves nothing where input and output share memory."""

    kind = "reshape"
    tflite = "RESHAPE"
    tflite_inputs = (1, 2)
    in_place = ((0, 0),)
    alias = True

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """The shape from the second operand, if it is a vector of constants, else the options."""
        target = node.inputs[1] if len(node.inputs) > 1 else None
        if target is not None and target.data is not None and len(target.shape) == 1:
            return {"shape": tuple(int(n) for n in target.data)}
        if target is not None and target.data is None:
            return {"shape": None}
        options = node.options(ReshapeOptions)
        shape = tuple(int(options.NewShape(i)) for i in range(options.NewShapeLength()))
        return {"shape": () if shape == (0,) else shape}  # old converters' way to say scalar

    def operands(self, node: TfliteOp) -> Sequence[Tensor | None]:
        """The data alone."""
        return node.inputs[:1]

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8, the scale kept; a constant shape of as many elements, one size may be -1."""
        if op.attrs["shape"] is None:
            return ["computed shape"]
        found = int8_problems(op, graph)
        if not found:
            operands = (graph[op.inputs[0]], graph[op.outputs[0]])
            found += same_quantization_problems(operands)
        if self._resolve(op, graph) is None:
            wanted = "x".join(map(str, op.ints("shape")))
            found.append(f"{graph[op.inputs[0]].size} elements do not fill shape {wanted}")
        return found

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The attribute, with -1 filled in."""
        resolved = self._resolve(op, graph)
        return (resolved if resolved is not None else op.ints("shape"),)

    @staticmethod
    def _resolve(op: Op, graph: Graph) -> tuple[int, ...] | None:
        size, shape = graph[op.inputs[0]].size, list(op.ints("shape"))
        if shape.count(-1) > 1 or any(n < -1 for n in shape):
            return None
        known = 1
        for n in shape:
            known *= n if n != -1 else 1
        if -1 in shape and known > 0:
            shape[shape.index(-1)] = size // known
            known *= size // known
        return tuple(shape) if known == size and -1 not in shape else None

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """The same values."""
        del step
        return (np.reshape(inputs[0], self.shape(op, graph)[0]),)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """The same integers and scale."""
        x = op.inputs[0]
        if builder.needs_error(x):
            error = builder.error_of(op.outputs[0])
            shape = builder.graph[op.outputs[0]].shape
            builder.add_error(x, reshaped_error(builder, error, x, shape))

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_copy_s8`."""
        return KernelCall(
            "tt_copy_s8",
            {"count": graph[op.outputs[0]].size},
            {"input": op.inputs[0], "output": op.outputs[0]},
        )
