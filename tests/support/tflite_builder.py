"""Build int8 `.tflite` models operator by operator.

In: NumPy weights, scales and options. Out: the bytes of a model that TFLite interpreters accept.
Each operator method appends one operator and returns a `Ref` to its output; output shapes follow
TFLite's rules. Must not know: the package under test, which reads these files.

    b = Builder()
    x = b.input("x", (1, 8, 8, 4), scale=0.05, zero_point=-3)
    y = b.conv2d(x, weights, 0.01, bias, out_scale=0.1, out_zero_point=4, activation="RELU6")
    b.output(y)
    data = b.build()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from tests.support.tflite_writer import Array, OpSpec, QuantSpec, TensorSpec, write_model

Pair = tuple[int, int]
Scale = float | Sequence[float] | npt.NDArray[np.floating[Any]]

SOFTMAX_SCALE, SOFTMAX_ZERO_POINT = 1.0 / 256.0, -128
"""The only output quantization that TFLite's int8 SOFTMAX accepts."""


@dataclass(frozen=True)
class Ref:
    """A tensor of the model being built: its tflite index and what the next operator asks for."""

    index: int
    shape: tuple[int, ...]
    dtype: str
    scale: float
    zero_point: int


class Builder:
    """Collects tensors and operators in order; `build` serializes them."""

    def __init__(self) -> None:
        self._tensors: list[TensorSpec] = []
        self._ops: list[OpSpec] = []
        self._inputs: list[int] = []
        self._outputs: list[int] = []

    # ------------------------------------------------------------------ tensors and borders

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        *,
        dtype: str = "int8",
        scale: float = 0.0,
        zero_point: int = 0,
    ) -> Ref:
        """Add a tensor that an operator fills; scale 0 leaves it without quantization."""
        quant = QuantSpec((float(np.float32(scale)),), (zero_point,)) if scale else None
        spec = TensorSpec(name, tuple(int(n) for n in shape), dtype, quant)
        return self._add(spec)

    def constant(
        self,
        name: str,
        data: Array,
        scale: Scale | None = None,
        *,
        zero_point: int = 0,
        dimension: int = 0,
    ) -> Ref:
        """Add a constant; a sequence of scales makes it per-channel along `dimension`."""
        quant = None
        if scale is not None:
            scales = tuple(float(s) for s in np.atleast_1d(np.asarray(scale, np.float32)))
            quant = QuantSpec(scales, (zero_point,) * len(scales), dimension)
        return self._add(TensorSpec(name, data.shape, data.dtype.name, quant, data))

    def input(
        self,
        name: str,
        shape: Sequence[int],
        *,
        scale: float = 0.0,
        zero_point: int = 0,
        dtype: str = "int8",
    ) -> Ref:
        """Add an input of the model (`dtype="float32"` without a scale for a float border)."""
        ref = self.tensor(name, shape, dtype=dtype, scale=scale, zero_point=zero_point)
        self._inputs.append(ref.index)
        return ref

    def output(self, ref: Ref) -> None:
        """Make `ref` an output of the model."""
        self._outputs.append(ref.index)

    def build(self, description: str = "") -> bytes:
        """Return the model file's bytes."""
        return write_model(self._tensors, self._ops, self._inputs, self._outputs, description)

    # ------------------------------------------------------------------ layers with weights

    def conv2d(
        self,
        x: Ref,
        weights: npt.NDArray[np.int8],
        w_scale: Scale,
        bias: npt.NDArray[np.int32] | None = None,
        *,
        out_scale: float,
        out_zero_point: int = 0,
        stride: Pair = (1, 1),
        dilation: Pair = (1, 1),
        padding: str = "SAME",
        activation: str = "NONE",
        name: str = "conv2d",
    ) -> Ref:
        """CONV_2D; weights are (out, kh, kw, in), per-channel along 0; pairs are (h, w)."""
        out_hw = _window_shape(x.shape[1:3], weights.shape[1:3], stride, dilation, padding)
        inputs = self._weighted(x, weights, w_scale, bias, 0, name)
        out = self.tensor(
            self._fresh(name),
            (x.shape[0], *out_hw, weights.shape[0]),
            scale=out_scale,
            zero_point=out_zero_point,
        )
        options = {**_window_options(stride, padding, activation), **_dilation_options(dilation)}
        return self.op("CONV_2D", inputs, out, "Conv2DOptions", options, version=3)

    def depthwise_conv2d(
        self,
        x: Ref,
        weights: npt.NDArray[np.int8],
        w_scale: Scale,
        bias: npt.NDArray[np.int32] | None = None,
        *,
        out_scale: float,
        out_zero_point: int = 0,
        stride: Pair = (1, 1),
        dilation: Pair = (1, 1),
        padding: str = "SAME",
        activation: str = "NONE",
        name: str = "depthwise_conv2d",
    ) -> Ref:
        """DEPTHWISE_CONV_2D; weights are (1, kh, kw, in * multiplier), per-channel along 3."""
        channels = weights.shape[3]
        out_hw = _window_shape(x.shape[1:3], weights.shape[1:3], stride, dilation, padding)
        inputs = self._weighted(x, weights, w_scale, bias, 3, name)
        out = self.tensor(
            self._fresh(name),
            (x.shape[0], *out_hw, channels),
            scale=out_scale,
            zero_point=out_zero_point,
        )
        options = {
            **_window_options(stride, padding, activation),
            **_dilation_options(dilation),
            "DepthMultiplier": channels // x.shape[3],
        }
        return self.op(
            "DEPTHWISE_CONV_2D", inputs, out, "DepthwiseConv2DOptions", options, version=3
        )

    def fully_connected(
        self,
        x: Ref,
        weights: npt.NDArray[np.int8],
        w_scale: Scale,
        bias: npt.NDArray[np.int32] | None = None,
        *,
        out_scale: float,
        out_zero_point: int = 0,
        activation: str = "NONE",
        keep_num_dims: bool = False,
        name: str = "fully_connected",
    ) -> Ref:
        """FULLY_CONNECTED; weights are (out, in); x is flattened to rows of `in` as TFLite does."""
        units, depth = weights.shape
        rows = int(np.prod(x.shape)) // depth
        shape = (*x.shape[:-1], units) if keep_num_dims else (rows, units)
        inputs = self._weighted(x, weights, w_scale, bias, 0, name)
        out = self.tensor(self._fresh(name), shape, scale=out_scale, zero_point=out_zero_point)
        options = {**_activation(activation), "KeepNumDims": keep_num_dims}
        version = 4 if bias is not None else 6
        return self.op("FULLY_CONNECTED", inputs, out, "FullyConnectedOptions", options, version)

    # ------------------------------------------------------------------ two tensors and more

    def add(
        self,
        a: Ref,
        b: Ref,
        *,
        out_scale: float,
        out_zero_point: int = 0,
        activation: str = "NONE",
        name: str = "add",
    ) -> Ref:
        """ADD of two tensors (either may be a constant), broadcast by NumPy's rule."""
        out = self._broadcast(a, b, name, out_scale, out_zero_point)
        return self.op("ADD", (a, b), out, "AddOptions", _activation(activation), version=2)

    def mul(
        self,
        a: Ref,
        b: Ref,
        *,
        out_scale: float,
        out_zero_point: int = 0,
        activation: str = "NONE",
        name: str = "mul",
    ) -> Ref:
        """MUL of two tensors (either may be a constant), broadcast by NumPy's rule."""
        out = self._broadcast(a, b, name, out_scale, out_zero_point)
        return self.op("MUL", (a, b), out, "MulOptions", _activation(activation), version=2)

    def concatenation(
        self,
        parts: Sequence[Ref],
        *,
        axis: int = -1,
        activation: str = "NONE",
        name: str = "concatenation",
    ) -> Ref:
        """CONCATENATION; TFLite's int8 kernel wants all parts and the output at one scale."""
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        out = self._like(parts[0], shape, name)
        options = {**_activation(activation), "Axis": axis}
        return self.op("CONCATENATION", parts, out, "ConcatenationOptions", options, version=2)

    # ------------------------------------------------------------------ pools and reductions

    def average_pool2d(
        self,
        x: Ref,
        *,
        size: Pair,
        stride: Pair | None = None,
        padding: str = "VALID",
        activation: str = "NONE",
        name: str = "average_pool2d",
    ) -> Ref:
        """AVERAGE_POOL_2D at the input's scale; `stride` defaults to `size`."""
        return self._pool("AVERAGE_POOL_2D", x, size, stride or size, padding, activation, name)

    def max_pool2d(
        self,
        x: Ref,
        *,
        size: Pair,
        stride: Pair | None = None,
        padding: str = "VALID",
        activation: str = "NONE",
        name: str = "max_pool2d",
    ) -> Ref:
        """MAX_POOL_2D at the input's scale; `stride` defaults to `size`."""
        return self._pool("MAX_POOL_2D", x, size, stride or size, padding, activation, name)

    def mean(
        self,
        x: Ref,
        *,
        axis: Sequence[int] = (1, 2),
        keep_dims: bool = False,
        out_scale: float | None = None,
        out_zero_point: int | None = None,
        name: str = "mean",
    ) -> Ref:
        """MEAN over `axis`; the output's quantization defaults to the input's."""
        reduced = {a % len(x.shape) for a in axis}
        sizes = [1 if i in reduced else n for i, n in enumerate(x.shape)]
        shape = [n for i, n in enumerate(sizes) if keep_dims or i not in reduced]
        axes = self.constant(self._fresh(f"{name}/axis"), np.asarray(list(axis), np.int32))
        out = self._like(x, shape, name, out_scale, out_zero_point)
        return self.op("MEAN", (x, axes), out, "ReducerOptions", {"KeepDims": keep_dims}, version=2)

    # ------------------------------------------------------------------ shape and value maps

    def pad(self, x: Ref, paddings: Sequence[Pair], *, name: str = "pad") -> Ref:
        """PAD with the zero point; `paddings` is one (before, after) for each dimension."""
        shape = [n + before + after for n, (before, after) in zip(x.shape, paddings, strict=True)]
        amounts = self.constant(self._fresh(f"{name}/paddings"), np.asarray(paddings, np.int32))
        return self.op("PAD", (x, amounts), self._like(x, shape, name), "PadOptions", version=2)

    def reshape(self, x: Ref, shape: Sequence[int], *, name: str = "reshape") -> Ref:
        """RESHAPE; one dimension may be -1."""
        known = np.empty(x.shape, np.bool_).reshape(tuple(shape)).shape
        target = self.constant(self._fresh(f"{name}/shape"), np.asarray(shape, np.int32))
        options = {"NewShape": tuple(shape)}
        return self.op(
            "RESHAPE", (x, target), self._like(x, known, name), "ReshapeOptions", options
        )

    def relu(
        self,
        x: Ref,
        *,
        out_scale: float | None = None,
        out_zero_point: int | None = None,
        name: str = "relu",
    ) -> Ref:
        """RELU as an operator of its own; the output's quantization defaults to the input's."""
        out = self._like(x, x.shape, name, out_scale, out_zero_point)
        return self.op("RELU", (x,), out, version=2)

    def relu6(
        self,
        x: Ref,
        *,
        out_scale: float | None = None,
        out_zero_point: int | None = None,
        name: str = "relu6",
    ) -> Ref:
        """RELU6 as an operator of its own; the output's quantization defaults to the input's."""
        out = self._like(x, x.shape, name, out_scale, out_zero_point)
        return self.op("RELU6", (x,), out, version=2)

    def softmax(self, x: Ref, *, beta: float = 1.0, name: str = "softmax") -> Ref:
        """SOFTMAX over the last dimension, at scale 1/256 and zero point -128."""
        out = self._like(x, x.shape, name, SOFTMAX_SCALE, SOFTMAX_ZERO_POINT)
        return self.op("SOFTMAX", (x,), out, "SoftmaxOptions", {"Beta": beta}, version=2)

    def logistic(self, x: Ref, *, name: str = "logistic") -> Ref:
        """Scale 1/256, zero point -128."""
        out = self.tensor(self._fresh(name), x.shape, scale=1 / 256, zero_point=-128)
        return self.op("LOGISTIC", (x,), out)

    def tanh(self, x: Ref, *, name: str = "tanh") -> Ref:
        """Scale 1/128, zero point 0."""
        out = self.tensor(self._fresh(name), x.shape, scale=1 / 128, zero_point=0)
        return self.op("TANH", (x,), out)

    def quantize(
        self, x: Ref, *, out_scale: float, out_zero_point: int = 0, name: str = "quantize"
    ) -> Ref:
        """QUANTIZE from float32 (or a rescale from int8) to int8."""
        out = self.tensor(self._fresh(name), x.shape, scale=out_scale, zero_point=out_zero_point)
        return self.op("QUANTIZE", (x,), out, "QuantizeOptions", version=2)

    def dequantize(self, x: Ref, *, name: str = "dequantize") -> Ref:
        """DEQUANTIZE from int8 to float32."""
        out = self.tensor(self._fresh(name), x.shape, dtype="float32")
        return self.op("DEQUANTIZE", (x,), out, "DequantizeOptions", version=2)

    # ------------------------------------------------------------------ any operator

    def op(
        self,
        kind: str,
        inputs: Sequence[Ref | None],
        out: Ref,
        options_table: str | None = None,
        options: dict[str, Any] | None = None,
        version: int = 1,
    ) -> Ref:
        """Append any operator of the schema as given (None: an absent input) and return `out`."""
        indices = tuple(-1 if ref is None else ref.index for ref in inputs)
        self._ops.append(OpSpec(kind, indices, (out.index,), version, options_table, options or {}))
        return out

    # ------------------------------------------------------------------ helpers

    def _add(self, spec: TensorSpec) -> Ref:
        self._tensors.append(spec)
        scale, zero_point = 0.0, 0
        if spec.quant is not None:
            scale, zero_point = spec.quant.scales[0], spec.quant.zero_points[0]
        return Ref(len(self._tensors) - 1, spec.shape, spec.dtype, scale, zero_point)

    def _fresh(self, name: str) -> str:
        """Return `name`, or `name_2` and so on where it is taken."""
        taken = {tensor.name for tensor in self._tensors}
        candidate, count = name, 1
        while candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        return candidate

    def _like(
        self,
        x: Ref,
        shape: Sequence[int],
        name: str,
        scale: float | None = None,
        zero_point: int | None = None,
    ) -> Ref:
        return self.tensor(
            self._fresh(name),
            shape,
            dtype=x.dtype,
            scale=x.scale if scale is None else scale,
            zero_point=x.zero_point if zero_point is None else zero_point,
        )

    def _weighted(
        self,
        x: Ref,
        weights: npt.NDArray[np.int8],
        w_scale: Scale,
        bias: npt.NDArray[np.int32] | None,
        dimension: int,
        name: str,
    ) -> tuple[Ref, ...]:
        w = self.constant(self._fresh(f"{name}/weights"), weights, w_scale, dimension=dimension)
        if bias is None:
            # Left out rather than given as -1, which depthwise kernels refuse. TFLite's int8
            # CONV_2D refuses both; only TFLM runs a convolution without bias.
            return (x, w)
        b_scale = np.float32(x.scale) * np.asarray(w_scale, np.float32)
        return (x, w, self.constant(self._fresh(f"{name}/bias"), bias, b_scale))

    def _broadcast(self, a: Ref, b: Ref, name: str, scale: float, zero_point: int) -> Ref:
        shape = np.broadcast_shapes(a.shape, b.shape)
        return self.tensor(self._fresh(name), shape, scale=scale, zero_point=zero_point)

    def _pool(
        self,
        kind: str,
        x: Ref,
        size: Pair,
        stride: Pair,
        padding: str,
        activation: str,
        name: str,
    ) -> Ref:
        out_hw = _window_shape(x.shape[1:3], size, stride, (1, 1), padding)
        out = self._like(x, (x.shape[0], *out_hw, x.shape[3]), name)
        options = {
            **_window_options(stride, padding, activation),
            "FilterHeight": size[0],
            "FilterWidth": size[1],
        }
        return self.op(kind, (x,), out, "Pool2DOptions", options, version=2)


def _activation(activation: str) -> dict[str, Any]:
    return {"FusedActivationFunction": getattr(tflite.ActivationFunctionType, activation)}


def _window_options(stride: Pair, padding: str, activation: str) -> dict[str, Any]:
    return {
        "Padding": getattr(tflite.Padding, padding),
        "StrideH": stride[0],
        "StrideW": stride[1],
        **_activation(activation),
    }


def _dilation_options(dilation: Pair) -> dict[str, Any]:
    return {"DilationHFactor": dilation[0], "DilationWFactor": dilation[1]}


def _window_shape(
    size: Sequence[int], kernel: Sequence[int], stride: Pair, dilation: Pair, padding: str
) -> tuple[int, ...]:
    """TFLite's output height and width: ceil(n / s) for SAME, ceil((n - reach) / s) for VALID."""
    reach = [0 if padding == "SAME" else (k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    return tuple(-(-(n - r) // s) for n, r, s in zip(size, reach, stride, strict=True))
