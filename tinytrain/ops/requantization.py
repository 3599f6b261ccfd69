"""Per-channel output requantization of convolutions and fully connected layers.

In: quantization of input, weights, output. Out: multiplier and shift tables, and accumulators
turned into int8. Source: TFLite's `MultiplyByQuantizedMultiplier`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinytrain.ir import Array, Graph, Op, Tensor
from tinytrain.numeric import fixed_point
from tinytrain.numeric.quantize import activation_range
from tinytrain.ops.base import Param
from tinytrain.ops.checks import ratio_problems

# 255 * 128 * terms must stay below 2^31
MAX_TERMS = (2**31 - 1) // (255 * 128)


def weight_problems(op: Op, graph: Graph, channel_axis: int) -> list[str]:
    """Weights must be int8 constants, symmetric, with one scale or one an output channel; the
    bias, if any, int32."""
    weights = graph[op.inputs[1]]
    found = []
    if weights.data is None:
        found.append("weights are computed, constants are needed")
    if weights.dtype != "int8" or weights.quant is None:
        return [*found, f"weights of type {weights.dtype}, int8 is needed"]
    if weights.q.zero_point != 0:
        found.append("weights with a zero point")
    if weights.q.per_channel:
        if weights.q.axis != channel_axis:
            found.append(f"weight scales along axis {weights.q.axis}, {channel_axis} is needed")
        elif len(weights.q.scale) != weights.shape[channel_axis]:
            found.append("number of weight scales differs from the number of output channels")
    terms = weights.size // weights.shape[channel_axis] if weights.shape[channel_axis] else 0
    if terms > MAX_TERMS:
        found.append(f"sums of {terms} products, {MAX_TERMS} fit 32 bits")
    x, out = graph[op.inputs[0]], graph[op.outputs[0]]
    if x.quant and out.quant and out.q.scale0 > 0:
        found += ratio_problems(x.q.scale0 * max(weights.q.scale) / out.q.scale0)
    if len(op.inputs) > 2 and op.inputs[2]:
        bias = graph[op.inputs[2]]
        if bias.dtype != "int32" or bias.data is None:
            found.append(f"bias of type {bias.dtype}, an int32 constant is needed")
        elif bias.size != weights.shape[channel_axis]:
            found.append(f"{bias.size} biases for {weights.shape[channel_axis]} output channels")
    return found


def channel_multipliers(
    x: Tensor, weights: Tensor, out: Tensor, channels: int
) -> tuple[Array, Array]:
    """Q31 multipliers and shifts, int32 [channels]: s_x * s_w[c] / s_out in double precision."""
    real = (
        float(np.float32(x.q.scale0))
        * weights.q.scales(channels).astype(np.float64)
        / float(np.float32(out.q.scale0))
    )
    pairs = [fixed_point.quantize_multiplier(float(r)) for r in real]
    return (
        np.array([m for m, _ in pairs], np.int32),
        np.array([s for _, s in pairs], np.int32),
    )


def requantize(accumulator: Array, multiplier: Array, shift: Array, op: Op, out: Tensor) -> Array:
    """int64 accumulators [..., C] (taken modulo 2^32) -> int8, clamped to the activation."""
    low, high = activation_range(op.str("activation"), out.q)
    wrapped = fixed_point.wrap_int32(accumulator)
    scaled = fixed_point.multiply_by_quantized_multiplier(wrapped, multiplier, shift)
    shifted = fixed_point.wrap_int32(scaled + out.q.zero_point)
    return np.clip(shifted, low, high).astype(np.int8)


def output_params(op: Op, out: Tensor, multiplier: Array, shift: Array) -> Mapping[str, Param]:
    """The C fields of an output stage, struct `tt_output_stage`."""
    low, high = activation_range(op.str("activation"), out.q)
    return {
        "multiplier": multiplier,
        "shift": shift.astype(np.int8),
        "zero_point": out.q.zero_point,
        "act_min": low,
        "act_max": high,
    }
