"""The float32 network that an int8 one stands for, in PyTorch: what training is measured against.

In: the forward graph with its loss, as `attach_loss` returns it. Out: logits (or values), from
dequantized weights and real activations, with no quantization between them. Activations are NCHW
here. Must not know anything of the integer backward pass: derivatives are PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.errors import InputError, ToolError
from tinytrain.ir import Graph, Op, Tensor
from tinytrain.train.layers import LAYER_KINDS

Array = npt.NDArray[Any]
Values = dict[str, Any]  # name -> torch.Tensor

BOUNDS = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


def import_torch() -> Any:
    """PyTorch, on one thread.

    Raises:
        ToolError: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise ToolError(
            "missing-torch",
            "bench",
            "the float32 reference needs PyTorch",
            hint="pip install 'tinytrain[accuracy]', or leave it out with --no-reference",
        ) from error
    torch.set_num_threads(1)
    return torch


class FloatNet:
    """The network as a function of its parameters.

    Args:
        graph: ends in `class_scores`, or in int8 values for the mean squared error.

    Raises:
        InputError: an operator has no float32 form here.
    """

    def __init__(self, graph: Graph) -> None:
        self._torch = import_torch()
        self.graph = graph
        self.ops: Sequence[Op] = [op for op in graph.ops if op.kind != "class_scores"]
        unknown = sorted({op.kind for op in self.ops} - set(_FORMS))
        if unknown:
            raise InputError(
                "no-float-form",
                "bench",
                f"the float32 reference knows no {', '.join(unknown)}",
                where=graph.name,
            )
        self.scores = next((op for op in graph.ops if op.kind == "class_scores"), None)

    def parameters(self) -> Values:
        """Weights in units of the int8 weights, biases in real units, as float32 tensors."""
        found = {}
        for op in self.ops:
            if op.kind in LAYER_KINDS:
                for i, name in enumerate(op.inputs[1:]):
                    data = self.graph[name].data if name else None
                    if data is not None:
                        real = data.astype(np.float32)
                        real = real * self.bias_scales(op) if i == 1 else real
                        found[name] = self._torch.from_numpy(np.ascontiguousarray(real))
        return found

    def weight_scales(self, op: Op) -> npt.NDArray[np.float32]:
        """Of a layer's weights, one an output channel, to be broadcast over them."""
        weights = self.graph[op.inputs[1]]
        axis = 3 if op.kind == "depthwise_conv2d" else 0
        shape = [1] * len(weights.shape)
        shape[axis] = -1
        scales: npt.NDArray[np.float32] = weights.q.scales(weights.shape[axis]).astype(np.float32)
        return scales.reshape(shape)

    def bias_scales(self, op: Op) -> npt.NDArray[np.float32]:
        """Real size of one unit of a layer's int32 bias, one an output channel."""
        scale = np.float32(self.graph[op.inputs[0]].q.scale0)
        scales: npt.NDArray[np.float32] = self.weight_scales(op).reshape(-1) * scale
        return scales

    def input(self, x: Array) -> Any:
        """Int8 samples [N, ...] as real values, channels first."""
        tensor = self.graph[self.graph.inputs[0]]
        values = _real(x.reshape(-1, *tensor.shape[1:]), tensor)
        return _channels_first(self._torch.from_numpy(values))

    def run(self, known: Values, parameters: Mapping[str, Any], ops: Sequence[Op]) -> Values:
        """Apply operators to known activations; returns those with the new ones."""
        values = dict(known)
        for op in ops:
            operands = [self._operand(values, parameters, op, i) for i in range(len(op.inputs))]
            out = _FORMS[op.kind](self, op, *operands)
            low, high = BOUNDS[str(op.attrs.get("activation", _OWN.get(op.kind, "NONE")))]
            if low is not None or high is not None:
                out = self._torch.clamp(out, low, high)
            values[op.outputs[0]] = out
        return values

    def result(self, values: Values) -> Any:
        """Logits [N, classes] times the softmax's beta, or the values [N, ...].

        A single logit is that of the second of two classes; that of the first is 0.
        """
        if self.scores is None:
            return values[self.graph.outputs[0]]
        logits = values[self.scores.inputs[0]]
        rows = logits.reshape(logits.shape[0], -1) * self.scores.float("beta")
        if rows.shape[1] == 1:
            rows = self._torch.cat([self._torch.zeros_like(rows), rows], 1)
        return rows

    def _operand(self, values: Values, parameters: Mapping[str, Any], op: Op, i: int) -> Any:
        name = op.inputs[i]
        if not name or name in values:
            return values.get(name)
        if name in parameters:
            if i == 1 and op.kind in LAYER_KINDS:
                return parameters[name] * self._torch.from_numpy(self.weight_scales(op))
            return parameters[name]
        tensor = self.graph[name]
        assert tensor.data is not None
        return _channels_first(self._torch.from_numpy(_real(tensor.data, tensor)))

    # ---- operators ----

    def _conv2d(self, op: Op, x: Any, weights: Any, bias: Any = None) -> Any:
        functional = self._torch.nn.functional
        x = self._padded(op, x, (weights.shape[1], weights.shape[2]), 0.0)
        kernel = weights.permute(0, 3, 1, 2)
        groups = x.shape[1] // weights.shape[3]
        return functional.conv2d(x, kernel, bias, op.ints("stride"), 0, op.ints("dilation"), groups)

    def _depthwise_conv2d(self, op: Op, x: Any, weights: Any, bias: Any = None) -> Any:
        functional = self._torch.nn.functional
        x = self._padded(op, x, (weights.shape[1], weights.shape[2]), 0.0)
        kernel = weights.permute(3, 0, 1, 2)
        return functional.conv2d(
            x, kernel, bias, op.ints("stride"), 0, op.ints("dilation"), x.shape[1]
        )

    def _fully_connected(self, op: Op, x: Any, weights: Any, bias: Any = None) -> Any:
        rows = _channels_last(x).reshape(-1, weights.shape[1]) @ weights.T
        rows = rows if bias is None else rows + bias
        shape = self.graph[op.outputs[0]].shape
        return _channels_first(rows.reshape(-1, *shape[1:]))

    def _padded(self, op: Op, x: Any, kernel: tuple[int, int], value: float) -> Any:
        """By TFLite's rule for SAME, the smaller half first, or as a folded PAD says."""
        if op.str("padding") == "VALID":
            return x
        sides = []
        if op.str("padding") == "EXPLICIT":
            top, left, bottom, right = op.ints("pads")
            sides = [left, right, top, bottom]
            return self._torch.nn.functional.pad(x, sides, value=value)
        for axis in (1, 0):  # PyTorch wants the last axis first
            size, stride = x.shape[2 + axis], op.ints("stride")[axis]
            reach = (kernel[axis] - 1) * op.ints("dilation")[axis] + 1
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            sides += [total // 2, total - total // 2]
        return self._torch.nn.functional.pad(x, sides, value=value)

    def _average_pool2d(self, op: Op, x: Any) -> Any:
        pool = self._torch.nn.functional.avg_pool2d
        kernel, stride = op.ints("kernel")[:2], op.ints("stride")
        ones = self._padded(op, self._torch.ones_like(x[:1, :1]), (kernel[0], kernel[1]), 0.0)
        x = self._padded(op, x, (kernel[0], kernel[1]), 0.0)
        return pool(x, kernel, stride) / pool(ones, kernel, stride)

    def _max_pool2d(self, op: Op, x: Any) -> Any:
        kernel = op.ints("kernel")[:2]
        x = self._padded(op, x, (kernel[0], kernel[1]), -1e30)
        return self._torch.nn.functional.max_pool2d(x, kernel, op.ints("stride"))

    def _mean(self, op: Op, x: Any) -> Any:
        out = _channels_last(x).mean(op.ints("axes"), keepdim=bool(op.attrs["keep_dims"]))
        return _channels_first(out)

    def _pad(self, op: Op, x: Any) -> Any:
        flat = op.ints("paddings")
        pairs = [flat[i : i + 2] for i in range(0, len(flat), 2)]
        sides = [side for pair in reversed(pairs) for side in pair]
        tensor = self.graph[op.outputs[0]]
        value = (op.int("value") - tensor.q.zero_point) * tensor.q.scale0
        padded = self._torch.nn.functional.pad(_channels_last(x), sides, value=value)
        return _channels_first(padded)

    def _reshape(self, op: Op, x: Any) -> Any:
        shape = self.graph[op.outputs[0]].shape
        return _channels_first(_channels_last(x).reshape(x.shape[0], *shape[1:]))

    def _concatenation(self, op: Op, *parts: Any) -> Any:
        axis = op.int("axis")
        return _channels_first(self._torch.cat([_channels_last(p) for p in parts], axis))

    def _add(self, op: Op, a: Any, b: Any) -> Any:
        return a + b

    def _mul(self, op: Op, a: Any, b: Any) -> Any:
        return a * b

    def _same(self, op: Op, x: Any) -> Any:
        return x

    def _softmax(self, op: Op, x: Any) -> Any:
        return _channels_first((_channels_last(x) * op.float("beta")).softmax(-1))

    def _logistic(self, op: Op, x: Any) -> Any:
        return x.sigmoid()

    def _tanh(self, op: Op, x: Any) -> Any:
        return x.tanh()


_OWN = {"relu": "RELU", "relu6": "RELU6"}
_FORMS: Mapping[str, Callable[..., Any]] = {
    "conv2d": FloatNet._conv2d,
    "depthwise_conv2d": FloatNet._depthwise_conv2d,
    "fully_connected": FloatNet._fully_connected,
    "logits": FloatNet._fully_connected,
    "average_pool2d": FloatNet._average_pool2d,
    "max_pool2d": FloatNet._max_pool2d,
    "mean": FloatNet._mean,
    "pad": FloatNet._pad,
    "pad_v2": FloatNet._pad,
    "reshape": FloatNet._reshape,
    "concatenation": FloatNet._concatenation,
    "add": FloatNet._add,
    "mul": FloatNet._mul,
    "relu": FloatNet._same,
    "relu6": FloatNet._same,
    "quantize": FloatNet._same,
    "softmax": FloatNet._softmax,
    "logistic": FloatNet._logistic,
    "tanh": FloatNet._tanh,
}


def _real(values: Array, tensor: Tensor) -> npt.NDArray[np.float32]:
    zero_point, scale = tensor.q.zero_point, np.float32(tensor.q.scale0)
    real: npt.NDArray[np.float32] = (values.astype(np.float32) - zero_point) * scale
    return real


def _channels_first(x: Any) -> Any:
    return x.movedim(-1, 1) if x.dim() == 4 else x


def _channels_last(x: Any) -> Any:
    return x.movedim(1, -1) if x.dim() == 4 else x
