"""From the error of a layer's output to the factor both its products need.

`fold_error` sets the error to 0 where the output sits on a clamp bound, and multiplies channel c by
the weight scale s_w[c] (relative to the largest, which goes into the scale). Its input may be
the int8 output itself or the bits that `clamp_mask` kept of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinytrain.ir import Array, Graph, Op
from tinytrain.numeric import random
from tinytrain.numeric.error_scale import ErrorRequantizer, error_limit, next_range
from tinytrain.ops.base import Error, GradBuilder, KernelCall, OpDef, Step

FACTOR_ONE = 1 << 14


def emit_fold(
    builder: GradBuilder, op: Op, weight_scales: Array, bounds: tuple[int, int] | None
) -> Error:
    """The folded error u of `op`'s output; `bounds` are its clamp bounds, None if unclamped."""
    output = op.outputs[0]
    error = builder.error_of(output)
    largest = float(np.max(weight_scales))
    error = error.times(largest)
    factors = np.floor(weight_scales.astype(np.float64) / largest * FACTOR_ONE + 0.5)
    uniform = bool(np.all(factors == FACTOR_ONE))
    if uniform and bounds is None:
        return error
    low, high = bounds or (-129, 128)
    attrs = {"act_min": low, "act_max": high, "gain": error.gain}
    mask = (output,) if bounds else ("",)
    if uniform:
        folded = builder.new_tensor("folded", builder.graph[output].shape)
        builder.emit("mask_error", (error.tensor, *mask), (folded,), **attrs)
        return Error(folded, error.scale, error.gain)
    folded_error = builder.new_error(output, "folded")
    amax = builder.new_range("folded")
    builder.emit(
        "fold_error",
        (error.tensor, error.scale, *mask, amax),
        (*folded_error[:2], amax),
        **attrs,
        factors=tuple(int(f) for f in factors),
        stream=builder.stream(),
    )
    return folded_error


def _open(op: Op, y: Array | None, count: int) -> Array:
    """1 where the output was not clamped: from the output (int8) or from mask bits (uint8)."""
    if y is None:
        return np.ones(count, np.int64)
    if y.dtype == np.uint8:
        return np.unpackbits(y, bitorder="little")[:count].astype(np.int64)
    flat = y.reshape(-1)
    return ((flat > op.int("act_min")) & (flat < op.int("act_max"))).astype(np.int64)


class ClampMask(OpDef):
    """Keep one bit an element: 1 where the value is strictly between the clamp bounds."""

    kind = "clamp_mask"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """[ceil(elements / 8)] bytes."""
        return ((-(-graph[op.inputs[0]].size // 8),),)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Least significant bit first."""
        del graph, step
        return (
            np.packbits(_open(op, inputs[0], inputs[0].size).astype(np.uint8), bitorder="little"),
        )

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_clamp_mask`."""
        return KernelCall(
            "tt_clamp_mask",
            {
                "count": graph[op.inputs[0]].size,
                "act_min": op.int("act_min"),
                "act_max": op.int("act_max"),
            },
            {"input": op.inputs[0], "mask": op.outputs[0]},
        )


class MaskError(OpDef):
    """Zero the errors of clamped outputs; the scale stays."""

    kind = "mask_error"
    in_place = ((0, 0),)

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """As the error."""
        return (graph[op.inputs[0]].shape,)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Elementwise."""
        del graph, step
        error, y = inputs
        keep = _open(op, y, error.size).reshape(error.shape)
        return ((error * keep).astype(np.int8),)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_mask_error`."""
        output, mask = _mask_io(graph, op.inputs[1])
        return KernelCall(
            "tt_mask_error",
            {
                "count": graph[op.inputs[0]].size,
                "act_min": op.int("act_min"),
                "act_max": op.int("act_max"),
            },
            {
                "error": op.inputs[0],
                "forward_output": output,
                "mask": mask,
                "result": op.outputs[0],
            },
        )


class FoldError(OpDef):
    """Mask, multiply by the channel's relative weight scale, requantize."""

    kind = "fold_error"
    in_place = ((0, 0),)

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """As the error; scale [1]; range [1]."""
        return (graph[op.inputs[0]].shape, (1,), (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """acc = e * factor[c] in Q14."""
        del graph
        error, scale, y, amax = inputs
        keep = _open(op, y, error.size).reshape(error.shape)
        acc = error.astype(np.int64) * keep * np.array(op.ints("factors"), np.int64)
        unit = np.float32(
            np.float32(scale[0] * np.float32(op.float("gain"))) * np.float32(1 / FACTOR_ONE)
        )
        return requantize_errors(acc, unit, amax, op, step)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_fold_error`."""
        output, mask = _mask_io(graph, op.inputs[2])
        factors = np.array(op.ints("factors"), np.int16)
        return KernelCall(
            "tt_fold_error",
            {
                "positions": graph[op.inputs[0]].size // len(factors),
                "channels": len(factors),
                "act_min": op.int("act_min"),
                "act_max": op.int("act_max"),
                "factors": factors,
                "gain": op.float("gain"),
                "stream": op.int("stream"),
            },
            {
                "error": op.inputs[0],
                "error_scale": op.inputs[1],
                "forward_output": output,
                "mask": mask,
                "range": op.inputs[3],
                "result": op.outputs[0],
                "result_scale": op.outputs[1],
            },
            takes_step=True,
        )


def requantize_errors(
    accumulator: Array, unit: np.float32, range_: Array, op: Op, step: Step
) -> tuple[Array, Array, Array]:
    """Accumulators -> (errors int8, scale float32[1], range float32[1]).

    Args:
        unit: size of one accumulator unit relative to the first error, float32.
        range_: the range state.
        op: its random stream; element i of the flattened tensor takes draw i.
        step: in a calibration step (`apply` is False) the range follows faster.
    """
    requantizer = ErrorRequantizer.for_range(error_limit(range_[0], unit))
    noise = random.random_bits(step.key(op), accumulator.size, 16).reshape(accumulator.shape)
    errors = requantizer.apply(accumulator, noise)
    following = next_range(range_[0], unit, accumulator, calibrating=not step.apply)
    return errors, np.array([requantizer.scale(unit)], np.float32), np.array([following])


def _mask_io(graph: Graph, name: str) -> tuple[str, str]:
    """(name if it is an int8 output, name if it is mask bits)."""
    if not name:
        return "", ""
    return ("", name) if graph[name].dtype == "uint8" else (name, "")
