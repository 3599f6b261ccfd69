"""LOGISTIC and TANH: int8 -> int8 by a table of 256 values; their gradient by another.

Source: TFLite's `PopulateLookupTable` (the function in float32, rounded half away from zero). Its
fixed-point variant in TFLite Micro differs by one in places.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tinytrain.ir import Array, Graph, Op, Tensor
from tinytrain.ops.base import GradBuilder, KernelCall, OpDef, Step
from tinytrain.ops.checks import int8_problems
from tinytrain.ops.fold_error import requantize_errors

F32 = np.float32
ALL_VALUES = np.arange(-128, 128, dtype=np.int64)
SLOPE_MAX = 127


class Lookup(OpDef):
    """Base of functions of one value."""

    in_place = ((0, 0),)
    output: ClassVar[tuple[float, int]]
    """Scale and zero point that TFLite prescribes."""
    steepest: ClassVar[float]
    """Largest derivative."""

    @abstractmethod
    def real(self, x: Array) -> Array:
        """The function in float32."""

    @abstractmethod
    def slope(self, y: Array) -> Array:
        """The derivative, from the function's value."""

    def values(self, x: Tensor) -> Array:
        """int8 [256], by input + 128."""
        real = self.real(((ALL_VALUES - x.q.zero_point) * F32(x.q.scale0)).astype(np.float32))
        scale, zero_point = self.output
        scaled = (real * F32(1.0 / scale)).astype(np.float64)
        rounded = np.trunc(scaled + np.copysign(0.5, scaled)) + zero_point
        table: Array = np.clip(rounded, -128, 127).astype(np.int8)
        return table

    def slopes(self) -> Array:
        """int8 [256] by output + 128: the derivative, of which `steepest` is 127."""
        scale, zero_point = self.output
        relative = self.slope((ALL_VALUES - zero_point) * scale) / self.steepest
        table: Array = np.rint(relative * SLOPE_MAX).astype(np.int8)
        return table

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8, and the output scale and zero point that TFLite prescribes."""
        found = int8_problems(op, graph)
        if found:
            return found
        out, (scale, zero_point) = graph[op.outputs[0]], self.output
        if out.q.scale0 != scale or out.q.zero_point != zero_point:
            found.append(f"output scale other than 1/{1 / scale:.0f} or zero point {zero_point}")
        return found

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The input's."""
        return (graph[op.inputs[0]].shape,)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """table[q + 128]."""
        del step
        return (self.values(graph[op.inputs[0]])[inputs[0].astype(np.int64) + 128],)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """The error times the derivative, which the forward output tells."""
        x = op.inputs[0]
        if not builder.needs_error(x):
            return
        error, result = builder.error_of(op.outputs[0]), builder.new_error(x, "error")
        amax = builder.new_range("error")
        builder.emit(
            "lookup_input_error",
            (error.tensor, error.scale, op.outputs[0], amax),
            (*result[:2], amax),
            gain=error.gain * self.steepest / SLOPE_MAX,
            slopes=tuple(int(v) for v in self.slopes()),
            stream=builder.stream(),
        )
        builder.add_error(x, result)

    def macs(self, op: Op, graph: Graph) -> int:
        """One an element."""
        return graph[op.outputs[0]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_lookup_s8`."""
        x = graph[op.inputs[0]]
        return KernelCall(
            "tt_lookup_s8",
            {"count": x.size, "table": self.values(x)},
            {"input": op.inputs[0], "output": op.outputs[0]},
        )


class Logistic(Lookup):
    """1 / (1 + e^-x)."""

    kind = "logistic"
    tflite = "LOGISTIC"
    output = (1.0 / 256.0, -128)
    steepest = 0.25

    def real(self, x: Array) -> Array:
        """In the type of `x`."""
        one = x.dtype.type(1.0)
        with np.errstate(over="ignore"):  # 1 / inf is right
            y: Array = one / (one + np.exp(-x))
        return y

    def slope(self, y: Array) -> Array:
        """y (1 - y)."""
        slope: Array = y * (1.0 - y)
        return slope


class Tanh(Lookup):
    """tanh(x)."""

    kind = "tanh"
    tflite = "TANH"
    output = (1.0 / 128.0, 0)
    steepest = 1.0

    def real(self, x: Array) -> Array:
        """In the type of `x`."""
        y: Array = np.tanh(x)
        return y

    def slope(self, y: Array) -> Array:
        """1 - y^2."""
        return 1.0 - y * y


class LookupInputError(OpDef):
    """acc = e * slope[y]."""

    kind = "lookup_input_error"
    in_place = ((0, 0), (2, 0))

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """As the forward output; scale; range."""
        return (graph[op.inputs[2]].shape, (1,), (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Multiply, requantize."""
        del graph
        error, scale, y, amax = inputs
        slopes = np.array(op.ints("slopes"), np.int64)
        acc = error.astype(np.int64).reshape(y.shape) * slopes[y.astype(np.int64) + 128]
        unit = F32(scale[0] * F32(op.float("gain")))
        return requantize_errors(acc, unit, amax, op, step)

    def macs(self, op: Op, graph: Graph) -> int:
        """One an element."""
        return graph[op.inputs[0]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_lookup_input_error`."""
        return KernelCall(
            "tt_lookup_input_error",
            {
                "count": graph[op.inputs[0]].size,
                "slopes": np.array(op.ints("slopes"), np.int8),
                "gain": op.float("gain"),
                "stream": op.int("stream"),
            },
            {
                "error": op.inputs[0],
                "error_scale": op.inputs[1],
                "forward_output": op.inputs[2],
                "range": op.inputs[3],
                "result": op.outputs[0],
                "result_scale": op.outputs[1],
            },
            takes_step=True,
        )
