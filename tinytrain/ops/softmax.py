"""SOFTMAX over the last dimension, int8 -> int8 by TFLite's fixed-point reference; its gradient.

Backward everything is an exact integer: with probabilities p in 256ths and row sum
dot = sum(e * p), the error of a logit is p * (256 e - dot) in units of the error's scale / 2^16.
Its range is that of the sample, as for a loss: it says how sure the model is, which changes fast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from tflite.SoftmaxOptions import SoftmaxOptions

from tinytrain.ir import Array, Attr, Graph, Op, Tensor
from tinytrain.numeric import fixed_exp, random
from tinytrain.numeric.error_scale import ErrorRequantizer
from tinytrain.numeric.fixed_point import (
    quantize_multiplier,
    rounding_divide_by_power_of_two,
    saturating_rounding_doubling_high_mul,
)
from tinytrain.ops.base import GradBuilder, KernelCall, OpDef, Step, TfliteOp
from tinytrain.ops.checks import int8_problems

MAX_ROW = 4095  # exponentials of at most 1 that the Q12 sum holds
OUTPUT_SCALE, OUTPUT_ZERO_POINT = 1.0 / 256.0, -128
FRACTION_BITS = 31 - fixed_exp.DIFFERENCE_INTEGER_BITS
OUTPUT_BITS = 8


def input_ratio(op: Op, x: Tensor) -> float:
    """Size of a difference of 1 in Q5 units, capped where the next value's share is 0 anyway."""
    beta = float(np.float32(op.float("beta")))
    real = beta * float(np.float32(x.q.scale0)) * (1 << FRACTION_BITS)
    return min(real, float((1 << 31) - 1))


def input_multiplier(op: Op, x: Tensor) -> tuple[int, int, int]:
    """(multiplier, left shift, smallest difference that counts)."""
    multiplier, shift = quantize_multiplier(input_ratio(op, x))
    largest = (1 << fixed_exp.DIFFERENCE_INTEGER_BITS) - 1
    radius = largest * (1 << FRACTION_BITS) / (1 << shift)
    return multiplier, shift, -math.floor(radius)


def row_exponentials(op: Op, x: Tensor, rows: Array) -> Array:
    """e**(beta * (x - max)) in Q0 for int8 rows [n, depth]; 0 where too small to count."""
    multiplier, shift, smallest = input_multiplier(op, x)
    difference = rows.astype(np.int64) - rows.astype(np.int64).max(axis=1, keepdims=True)
    counted = difference >= smallest
    shifted = np.where(counted, difference, 0) << shift
    scaled = saturating_rounding_doubling_high_mul(shifted, np.int64(multiplier))
    return np.where(counted, fixed_exp.exp_on_negative_values(scaled), 0)


class Softmax(OpDef):
    """exp(beta * x) over its sum along the last dimension."""

    kind = "softmax"
    tflite = "SOFTMAX"
    in_place = ((0, 0),)

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """beta."""
        return {"beta": float(node.options(SoftmaxOptions).Beta())}

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """int8; output scale 1/256 and zero point -128; rows of at most 4095 values; beta > 0."""
        found = int8_problems(op, graph)
        if found:
            return found
        x, out = graph[op.inputs[0]], graph[op.outputs[0]]
        if not x.shape or x.shape[-1] > MAX_ROW:
            found.append(f"rows of {x.shape[-1:]} values, 1 to {MAX_ROW} are supported")
        if out.q.scale0 != OUTPUT_SCALE or out.q.zero_point != OUTPUT_ZERO_POINT:
            found.append("output scale other than 1/256 or zero point other than -128")
        beta = op.float("beta")
        if not (math.isfinite(beta) and beta > 0.0 and input_ratio(op, x) > 1.0):
            found.append(f"beta of {beta} at input scale {x.q.scale0}")
        return found

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The input's."""
        return (graph[op.inputs[0]].shape,)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Row by row."""
        del step
        x = graph[op.inputs[0]]
        exponentials = row_exponentials(op, x, inputs[0].reshape(-1, x.shape[-1]))
        sums = fixed_exp.accumulator_unit(exponentials).sum(axis=1)
        rows = [self._row(e, int(s)) for e, s in zip(exponentials, sums, strict=True)]
        return (np.stack(rows).reshape(x.shape),)

    @staticmethod
    def _row(exponentials: Array, total: int) -> Array:
        reciprocal, bits = fixed_exp.reciprocal(total)
        exponent = bits + 31 - OUTPUT_BITS
        share = saturating_rounding_doubling_high_mul(exponentials, np.int64(reciprocal))
        if exponent > 31:  # a sum of 512 or more: every share is below 1/512
            return np.full(exponentials.shape, -128, np.int8)
        scaled = rounding_divide_by_power_of_two(share, np.asarray(exponent, np.int64))
        return np.clip(scaled - 128, -128, 127).astype(np.int8)

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """One operator from the error and the forward output."""
        x = op.inputs[0]
        if not builder.needs_error(x):
            return
        error = builder.error_of(op.outputs[0])
        result = builder.new_error(x, "error")
        builder.emit(
            "softmax_input_error",
            (error.tensor, error.scale, op.outputs[0]),
            result[:2],
            gain=error.gain * op.float("beta") / (1 << 16),
            stream=builder.stream(),
        )
        builder.add_error(x, result)

    def macs(self, op: Op, graph: Graph) -> int:
        """One an element."""
        return graph[op.outputs[0]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_softmax_s8`."""
        x = graph[op.inputs[0]]
        multiplier, shift, smallest = input_multiplier(op, x)
        return KernelCall(
            "tt_softmax_s8",
            {
                "rows": x.size // x.shape[-1],
                "depth": x.shape[-1],
                "multiplier": multiplier,
                "left_shift": shift,
                # no int8 difference is below -255
                "smallest_difference": max(smallest, -256),
            },
            {"input": op.inputs[0], "output": op.outputs[0]},
        )


class SoftmaxInputError(OpDef):
    """p * (256 e - dot), requantized with the range of this sample."""

    kind = "softmax_input_error"
    in_place = ((0, 0), (2, 0))

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """As the error; scale."""
        return (graph[op.inputs[0]].shape, (1,))

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Exact accumulators, then stochastic rounding at range max|acc|."""
        del graph
        error, scale, output = inputs
        e = error.astype(np.int64)
        p = output.reshape(error.shape).astype(np.int64) + 128
        dot = (e * p).sum(axis=-1, keepdims=True)
        acc = p * (256 * e - dot)
        requantizer = ErrorRequantizer.for_range(int(np.max(np.abs(acc))))
        noise = random.random_bits(step.key(op), acc.size, 16).reshape(acc.shape)
        unit = np.float32(scale[0] * np.float32(op.float("gain")))
        return requantizer.apply(acc, noise), np.array([requantizer.scale(unit)], np.float32)

    def macs(self, op: Op, graph: Graph) -> int:
        """Two an element."""
        return 2 * graph[op.inputs[0]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_softmax_input_error`."""
        error = graph[op.inputs[0]]
        depth = error.shape[-1]
        return KernelCall(
            "tt_softmax_input_error",
            {
                "rows": error.size // depth,
                "depth": depth,
                "gain": op.float("gain"),
                "stream": op.int("stream"),
            },
            {
                "error": op.inputs[0],
                "error_scale": op.inputs[1],
                "forward_output": op.inputs[2],
                "result": op.outputs[0],
                "result_scale": op.outputs[1],
            },
            takes_step=True,
        )
