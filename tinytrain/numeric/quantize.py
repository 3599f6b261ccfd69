"""Affine quantization parameters, and the ranges that fused activations clamp to.

In: real scales and zero points. Out: integers. Source: TFLite's quantization specification.
Must not know tensors or operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.numeric.fixed_point import round_half_away

INT8_MIN, INT8_MAX = -128, 127


@dataclass(frozen=True)
class Quant:
    """real = scale * (q - zero_point); `scale` has one entry, or one a slice along `axis`."""

    scale: tuple[float, ...]
    zero_point: int = 0
    axis: int | None = None

    @property
    def per_channel(self) -> bool:
        """Whether there is more than one scale."""
        return len(self.scale) > 1

    @property
    def scale0(self) -> float:
        """The scale of a per-tensor quantization."""
        return self.scale[0]

    def scales(self, channels: int) -> npt.NDArray[np.float32]:
        """The scales as float32, shape [channels], broadcast if per-tensor."""
        return np.broadcast_to(np.asarray(self.scale, np.float32), (channels,)).copy()


def quantize(
    real: npt.NDArray[np.floating[Any]], quant: Quant, low: int = INT8_MIN, high: int = INT8_MAX
) -> npt.NDArray[np.int8]:
    """Real values -> int8 at a per-tensor scale, to nearest (ties away from zero), saturating."""
    scaled = real.astype(np.float64) / quant.scale0
    rounded = np.sign(scaled) * np.floor(np.abs(scaled) + 0.5) + quant.zero_point
    clipped: npt.NDArray[np.int8] = np.clip(rounded, low, high).astype(np.int8)
    return clipped


def dequantize(q: npt.NDArray[np.signedinteger[Any]], quant: Quant) -> npt.NDArray[np.float32]:
    """int8 -> real, float32, per-tensor."""
    return (q.astype(np.float32) - np.float32(quant.zero_point)) * np.float32(quant.scale0)


def activation_range(activation: str, quant: Quant) -> tuple[int, int]:
    """Clamp bounds of a fused activation in the output's int8 units (TFLite's rule)."""

    def at(real: float) -> int:
        ratio = np.float32(real) / np.float32(quant.scale0)
        return quant.zero_point + round_half_away(float(ratio))

    if activation == "NONE":
        return INT8_MIN, INT8_MAX
    if activation == "RELU":
        return max(INT8_MIN, at(0.0)), INT8_MAX
    if activation == "RELU6":
        return max(INT8_MIN, at(0.0)), min(INT8_MAX, at(6.0))
    if activation == "RELU_N1_TO_1":
        return max(INT8_MIN, at(-1.0)), min(INT8_MAX, at(1.0))
    raise ValueError(activation)
