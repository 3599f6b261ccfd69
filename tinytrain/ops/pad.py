"""PAD and PADV2, and `crop`, which is their gradient (and that of a concatenation).

At most four dimensions; the values put round are a constant in the output's units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinytrain.ir import Array, Attr, Graph, Op, Tensor
from tinytrain.ops.base import Error, GradBuilder, KernelCall, OpDef, Step, TfliteOp
from tinytrain.ops.checks import MAX_RANK, int8_problems, same_quantization_problems


def emit_crop(
    builder: GradBuilder, error: Error, like: str, begin: tuple[int, ...], tag: str
) -> Error:
    """The part of an error that starts at `begin` and has the shape of tensor `like`."""
    shape = builder.graph[like].shape
    result = builder.new_tensor(tag, shape)
    builder.emit("crop", (error.tensor,), (result,), begin=begin, shape=shape)
    return error._replace(tensor=result)


def table4(values: Sequence[int], fill: int) -> Array:
    """Four int32 values, filled up in front."""
    return np.array([fill] * (MAX_RANK - len(values)) + list(values), np.int32)


class Pad(OpDef):
    """Surround with the zero point."""

    kind = "pad"
    tflite = "PAD"
    tflite_inputs = (2, 2)

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """(before, after) of each dimension, one after the other; None if not constant."""
        amounts = node.inputs[1]
        if amounts is None or amounts.data is None or amounts.dtype != "int32":
            return {"paddings": None, "value": node.outputs[0].q.zero_point}
        flat = tuple(int(n) for n in amounts.data.reshape(-1))
        return {"paddings": flat, "value": node.outputs[0].q.zero_point}

    def operands(self, node: TfliteOp) -> Sequence[Tensor | None]:
        """The data alone."""
        return node.inputs[:1]

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8 of at most four dimensions, the scale kept; constant amounts of 0 or more."""
        if op.attrs["paddings"] is None:
            return ["computed paddings, an int32 constant is needed"]
        x = graph[op.inputs[0]]
        found = int8_problems(op, graph)
        if not found:
            found += same_quantization_problems((x, graph[op.outputs[0]]))
        if len(x.shape) > MAX_RANK:
            found.append(f"input of rank {len(x.shape)}, at most {MAX_RANK} is supported")
        if len(op.ints("paddings")) != 2 * len(x.shape):
            found.append("number of paddings differs from the number of dimensions")
        if any(n < 0 for n in op.ints("paddings")):
            found.append("negative paddings")
        if op.attrs["value"] is None:
            found.append("value that is computed or has another scale than the output")
        return found

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """Each dimension with what is put before and after it."""
        sizes = graph[op.inputs[0]].shape
        pairs = zip(sizes, self._pairs(op), strict=True)
        return (tuple(n + before + after for n, (before, after) in pairs),)

    @staticmethod
    def _pairs(op: Op) -> list[tuple[int, int]]:
        flat = op.ints("paddings")
        return list(zip(flat[::2], flat[1::2], strict=True))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Constant padding."""
        del graph, step
        return (np.pad(inputs[0], self._pairs(op), constant_values=op.int("value")),)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """The inner part of the error."""
        x = op.inputs[0]
        if builder.needs_error(x):
            begin = tuple(before for before, _ in self._pairs(op))
            error = builder.error_of(op.outputs[0])
            builder.add_error(x, emit_crop(builder, error, x, begin, "cropped"))

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_pad_s8`."""
        return KernelCall(
            "tt_pad_s8",
            {
                "size": table4(graph[op.inputs[0]].shape, 1),
                "before": table4([before for before, _ in self._pairs(op)], 0),
                "padded_size": table4(graph[op.outputs[0]].shape, 1),
                "value": op.int("value"),
            },
            {"input": op.inputs[0], "output": op.outputs[0]},
        )


class PadV2(Pad):
    """Surround with a given value."""

    kind = "pad_v2"
    tflite = "PADV2"
    tflite_inputs = (3, 3)

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """As PAD; the value is None if it is not an int8 constant at the output's scale."""
        value = node.inputs[2]
        attrs = super().parse(node)
        usable = value is not None and value.data is not None and value.dtype == "int8"
        if value is None or not usable or same_quantization_problems((value, node.outputs[0])):
            return {**attrs, "value": None}
        assert value.data is not None
        return {**attrs, "value": int(value.data.reshape(-1)[0])}


class Crop(OpDef):
    """A box out of a tensor."""

    kind = "crop"
    in_place = ((0, 0),)

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The box."""
        del graph
        return (op.ints("shape"),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """A slice."""
        del graph, step
        sides = zip(op.ints("begin"), op.ints("shape"), strict=True)
        box = tuple(slice(first, first + n) for first, n in sides)
        return (np.ascontiguousarray(inputs[0][box]),)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_crop_s8`."""
        return KernelCall(
            "tt_crop_s8",
            {
                "size": table4(graph[op.inputs[0]].shape, 1),
                "begin": table4(op.ints("begin"), 0),
                "cropped_size": table4(op.ints("shape"), 1),
            },
            {"input": op.inputs[0], "output": op.outputs[0]},
        )
