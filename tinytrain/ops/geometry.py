"""The geometry of sliding windows, shared by convolutions and pools.

In: shapes and tflite options. Out: `Window`. Source: TFLite's padding rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tflite.ActivationFunctionType import ActivationFunctionType as _Activation
from tflite.Padding import Padding as _Padding

from tinytrain.ir import Array, Attr, Op
from tinytrain.ops.base import Param

ACTIVATIONS = {
    _Activation.NONE: "NONE",
    _Activation.RELU: "RELU",
    _Activation.RELU6: "RELU6",
    _Activation.RELU_N1_TO_1: "RELU_N1_TO_1",
}


def activation_name(code: int) -> str:
    """The fused activation's name; ``UNSUPPORTED_<code>`` for one that int8 clamping cannot do."""
    return ACTIVATIONS.get(code, f"UNSUPPORTED_{code}")


def activation_problems(op: Op) -> list[str]:
    """The fused activation must be NONE, RELU, RELU6 or RELU_N1_TO_1."""
    name = op.str("activation")
    return [f"fused activation {name}"] if name not in ACTIVATIONS.values() else []


def window_attrs(options: Any) -> dict[str, Attr]:
    """Stride, dilation, padding and activation of a tflite convolution's or pool's options."""
    has_dilation = hasattr(options, "DilationHFactor")
    return {
        "stride": (options.StrideH(), options.StrideW()),
        "dilation": (
            (options.DilationHFactor(), options.DilationWFactor()) if has_dilation else (1, 1)
        ),
        "padding": "SAME" if options.Padding() == _Padding.SAME else "VALID",
        "activation": activation_name(options.FusedActivationFunction()),
    }


def window_problems(op: Op, input_shape: tuple[int, ...], kernel: tuple[int, int]) -> list[str]:
    """Strides, dilations and kernel sizes must be positive, and the window must fit the input."""
    if len(input_shape) != 4:
        return [f"input of rank {len(input_shape)}, 4 is needed"]
    if input_shape[0] != 1:
        return [f"batch of {input_shape[0]}, 1 is needed"]
    sizes = (*op.ints("stride"), *op.ints("dilation"), *kernel)
    if min(sizes) < 1 or max(sizes) > 65535:
        return ["stride, dilation or kernel size not 1 to 65535"]
    out = Window.of(op, input_shape, kernel)
    if max(out.pad_h, out.pad_w) > 65535:
        return ["padding above 65535"]
    return ["window larger than the input"] if min(out.out_h, out.out_w) < 1 else []


@dataclass(frozen=True)
class Window:
    """Sizes of a two-dimensional sliding window over NHWC with batch 1."""

    in_h: int
    in_w: int
    out_h: int
    out_w: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pad_h: int
    pad_w: int

    @classmethod
    def of(cls, op: Op, input_shape: tuple[int, ...], kernel: tuple[int, int]) -> Window:
        """From an operator's attributes `stride`, `dilation`, `padding` (SAME, VALID, or EXPLICIT
        with `pads`: rows above, columns to the left, rows below, columns to the right)."""
        (stride_h, stride_w), (dilation_h, dilation_w) = op.ints("stride"), op.ints("dilation")
        padding = op.str("padding")
        top, left, bottom, right = op.ints("pads") if padding == "EXPLICIT" else (0, 0, 0, 0)
        height, width = input_shape[1] + top + bottom, input_shape[2] + left + right
        out_h, pad_h = _extent(height, kernel[0], stride_h, dilation_h, padding)
        out_w, pad_w = _extent(width, kernel[1], stride_w, dilation_w, padding)
        pad_h, pad_w = pad_h + top, pad_w + left
        return cls(
            input_shape[1], input_shape[2], out_h, out_w, kernel[0], kernel[1],
            stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w,
        )  # fmt: skip

    @property
    def params(self) -> Mapping[str, Param]:
        """The fields of the C struct `tt_window`."""
        return dict(vars(self))

    @property
    def positions(self) -> int:
        """Output positions."""
        return self.out_h * self.out_w

    def pad(self, x: Array, value: int = 0) -> Array:
        """[1, in_h, in_w, C] -> [H, W, C] padded so that every tap is a plain slice."""
        reach_h = (self.out_h - 1) * self.stride_h + (self.kernel_h - 1) * self.dilation_h + 1
        reach_w = (self.out_w - 1) * self.stride_w + (self.kernel_w - 1) * self.dilation_w + 1
        below = max(0, reach_h - self.pad_h - self.in_h)
        right = max(0, reach_w - self.pad_w - self.in_w)
        pads = ((self.pad_h, below), (self.pad_w, right), (0, 0))
        return np.pad(x[0], pads, constant_values=value)

    def crop(self, padded: Array) -> Array:
        """The inverse of `pad`: [H, W, C] -> [1, in_h, in_w, C]."""
        return padded[
            None, self.pad_h : self.pad_h + self.in_h, self.pad_w : self.pad_w + self.in_w
        ]

    def taps(self) -> Iterator[tuple[int, int, tuple[slice, slice]]]:
        """(kernel row, kernel column, slices of the padded input that this tap sees)."""
        for row in range(self.kernel_h):
            for column in range(self.kernel_w):
                top, left = row * self.dilation_h, column * self.dilation_w
                yield (
                    row,
                    column,
                    (
                        slice(top, top + (self.out_h - 1) * self.stride_h + 1, self.stride_h),
                        slice(left, left + (self.out_w - 1) * self.stride_w + 1, self.stride_w),
                    ),
                )


def _extent(size: int, kernel: int, stride: int, dilation: int, padding: str) -> tuple[int, int]:
    """Output size and leading padding along one axis (TFLite's ComputeOutSize)."""
    reach = (kernel - 1) * dilation + 1
    if padding == "SAME":
        out = -(-size // stride)
        return out, max(0, (out - 1) * stride + reach - size) // 2
    return (size + stride - reach) // stride, 0
