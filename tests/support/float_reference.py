"""The same network in float, differentiated by a package that has nothing to do with ours.

In: a graph (its forward operators count), weights and biases, one sample, a target. Out: the loss,
and its gradient for every weight and bias in real units. Derivatives come from `autograd`; the
forward operators are written anew here, from their definitions over real numbers. Must not know:
any backward operator of the package under test.

Two modes:

- plain: real activations from end to end; fused activations are clamps. What a float framework
  computes for the dequantized network.
- straight through: each operator's value is replaced by the dequantized int8 tensor that the
  integer network had, and its derivative is 0 where that tensor sits on a clamp bound. What is
  left between its gradients and the integer ones is the cost of int8 errors alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
from autograd.tracer import getval, isbox

from tinytrain.ir import Array, Graph, Op, Phase, Tensor

LAYERS = ("conv2d", "depthwise_conv2d", "fully_connected", "logits")
BOUNDS = {
    "NONE": (-np.inf, np.inf),
    "RELU": (0.0, np.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}
OWN_ACTIVATION = {"relu": "RELU", "relu6": "RELU6"}
SKIPPED = ("gather_channels", "clamp_mask")  # what a training graph keeps for its backward pass
NEVER_CLAMPED = (
    "pad", "pad_v2", "reshape", "concatenation", "average_pool2d", "max_pool2d", "softmax",
)  # fmt: skip

ONE_INPUT = ("relu", "relu6", "quantize", "mean")

Values = Mapping[str, Array]


class FloatReference:
    """The float network of a graph that ends in class scores, or in values for a squared error."""

    def __init__(self, graph: Graph, *, smoothing: float = 0.0) -> None:
        self.graph = graph
        self._ops = [op for op in graph.phase(Phase.FORWARD) if op.kind not in SKIPPED]
        self._smoothing = smoothing

    def parameters(self, state: Values | None = None) -> dict[str, Array]:
        """Weights and biases in real units; `state` holds values newer than the graph's."""
        found: dict[str, Array] = {}
        for op in self._ops:
            if op.kind in LAYERS:
                for name in op.inputs[1:]:
                    if name:
                        held = (state or {}).get(name, self.graph[name].data)
                        assert held is not None
                        found[name] = held.astype(np.float64) * self.unit(op, name)
        return found

    def unit(self, op: Op, name: str) -> Array:
        """Real size of one unit of an operator's weights or bias, broadcasting over it."""
        weights = self.graph[op.inputs[1]]
        axis = 3 if op.kind == "depthwise_conv2d" else 0
        scales = weights.q.scales(weights.shape[axis]).astype(np.float64)
        if name == op.inputs[1]:
            shape = [1] * len(weights.shape)
            shape[axis] = -1
            return scales.reshape(shape)
        return scales * float(np.float32(self.graph[op.inputs[0]].q.scale0))

    def gradients(
        self,
        parameters: Values,
        x: Array,
        target: int | Array,
        *,
        integers: Values | None = None,
        trained: frozenset[str] | None = None,
    ) -> tuple[float, dict[str, Array]]:
        """Loss, and its gradient by parameter name.

        Args:
            parameters: from `parameters`.
            x: one int8 sample.
            target: class index, or int8 values at the output's scale.
            integers: the integer network's tensors, for the straight-through mode.
            trained: parameters to differentiate for; None for all.
        """
        wanted = {k: v for k, v in parameters.items() if trained is None or k in trained}
        fixed = {k: v for k, v in parameters.items() if k not in wanted}

        def loss(some: dict[str, Array]) -> Any:
            return self._loss(self._forward({**fixed, **some}, x, integers), target)

        value, gradient = autograd.value_and_grad(loss)(wanted)
        return float(value), gradient

    def output(self, parameters: Values, x: Array) -> Array:
        """The plain float network's output: logits, or the values a squared error compares."""
        return np.asarray(self._forward(dict(parameters), x, None))

    # ------------------------------------------------------------------ forward

    def _forward(self, known: dict[str, Any], x: Array, integers: Values | None) -> Any:
        sample = self.graph[self.graph.inputs[0]]
        known = {**known, sample.name: _real(x.reshape(sample.shape), sample)}
        last = sample.name
        for op in self._ops:
            if op.kind == "class_scores":
                break
            last = op.outputs[0]
            known[last] = self._apply(op, known, integers)
        return known[last]

    def _apply(self, op: Op, known: dict[str, Any], integers: Values | None) -> Any:
        inputs = [self._operand(known, name) for name in op.inputs]
        out = self.graph[op.outputs[0]]
        if integers is not None and not any(isbox(v) for v in inputs):
            return _real(integers[out.name], out) if out.quant else self._compute(op, inputs)
        value = self._compute(op, inputs)
        activation = OWN_ACTIVATION.get(op.kind, op.attrs.get("activation", "NONE"))
        low, high = BOUNDS[str(activation)]
        if integers is None or out.quant is None:  # int32 logits are exact as they are
            return anp.clip(value, low, high) if (low, high) != BOUNDS["NONE"] else value
        held = integers[out.name]
        if not (op.kind in NEVER_CLAMPED and activation == "NONE"):
            value = value * self._inside(op, held, low, high)
        return value + (_real(held, out) - getval(value))

    def _inside(self, op: Op, held: Array, low: float, high: float) -> Array:
        """1 where an int8 value lies strictly between the bounds of its activation and of int8.

        An operator that cannot leave the range of its single input is not clamped at a bound that
        lies beyond this range.
        """
        out = self.graph[op.outputs[0]]
        scale = float(np.float32(out.q.scale0))
        bottom = max(-128.0, out.q.zero_point + np.floor(low / scale + 0.5))
        top = min(127.0, out.q.zero_point + np.floor(high / scale + 0.5))
        if op.kind in ONE_INPUT:
            limits = np.array([-128, 127], np.int8)
            reach = _real(limits, self.graph[op.inputs[0]]) / scale + out.q.zero_point
            bottom = bottom if reach[0] < bottom - 0.5 else -np.inf
            top = top if reach[1] > top + 0.5 else np.inf
        inside: Array = ((held > bottom) & (held < top)).astype(np.float64)
        return inside

    def _operand(self, known: dict[str, Any], name: str) -> Any:
        if not name:
            return None
        if name not in known:  # a constant operand of an elementwise operator
            tensor = self.graph[name]
            assert tensor.data is not None
            known[name] = _real(tensor.data, tensor)
        return known[name]

    def _compute(self, op: Op, inputs: list[Any]) -> Any:
        return getattr(self, f"_{op.kind}")(op, *inputs)

    def _loss(self, output: Any, target: int | Array) -> Any:
        if self._ops[-1].kind == "class_scores":
            logits = anp.ravel(output)
            classes = logits.shape[0]
            wanted = np.full(classes, self._smoothing / classes)
            wanted[int(np.asarray(target).reshape(-1)[0])] += 1.0 - self._smoothing
            top = float(np.max(getval(logits)))
            scores = logits - top - anp.log(anp.sum(anp.exp(logits - top)))
            return -anp.sum(wanted * scores)
        tensor = self.graph[self._ops[-1].outputs[0]]
        goal = _real(np.asarray(target).reshape(tensor.shape), tensor)
        return anp.mean((output - goal) ** 2)

    # ------------------------------------------------------------------ layers with weights

    def _conv2d(self, op: Op, x: Any, weights: Any, bias: Any = None) -> Any:
        _, kernel_h, kernel_w, _ = weights.shape
        total: Any = 0.0
        for row, column, tap in _taps(op, x, (kernel_h, kernel_w)):
            total = total + anp.dot(tap, weights[:, row, column, :].T)
        return total if bias is None else total + bias

    def _depthwise_conv2d(self, op: Op, x: Any, weights: Any, bias: Any = None) -> Any:
        _, kernel_h, kernel_w, channels = weights.shape
        multiple = channels // x.shape[3]
        total: Any = 0.0
        for row, column, tap in _taps(op, x, (kernel_h, kernel_w)):
            total = total + anp.repeat(tap, multiple, axis=3) * weights[0, row, column]
        return total if bias is None else total + bias

    def _fully_connected(self, op: Op, x: Any, weights: Any, bias: Any = None) -> Any:
        rows = anp.dot(anp.reshape(x, (-1, weights.shape[1])), weights.T)
        rows = rows if bias is None else rows + bias
        return anp.reshape(rows, self.graph[op.outputs[0]].shape)

    _logits = _fully_connected

    # ------------------------------------------------------------------ all others

    def _add(self, op: Op, a: Any, b: Any) -> Any:
        return a + b

    def _mul(self, op: Op, a: Any, b: Any) -> Any:
        return a * b

    def _average_pool2d(self, op: Op, x: Any) -> Any:
        kernel = op.ints("kernel")
        taps = [tap for *_, tap in _taps(op, x, (kernel[0], kernel[1]))]
        ones = [tap for *_, tap in _taps(op, np.ones(x.shape), (kernel[0], kernel[1]))]
        return sum(taps) / sum(ones)

    def _max_pool2d(self, op: Op, x: Any) -> Any:
        """The gradient goes to the first of several largest values, in row-major order."""
        kernel = op.ints("kernel")
        taps = [tap for *_, tap in _taps(op, x, (kernel[0], kernel[1]), padding_value=-1e30)]
        first = np.argmax(np.stack([getval(tap) for tap in taps]), axis=0)
        return sum(anp.where(first == i, tap, 0.0) for i, tap in enumerate(taps))

    def _mean(self, op: Op, x: Any) -> Any:
        return anp.mean(x, axis=op.ints("axes"), keepdims=bool(op.attrs["keep_dims"]))

    def _pad(self, op: Op, x: Any) -> Any:
        flat = op.ints("paddings")
        pairs = tuple(zip(flat[::2], flat[1::2], strict=True))
        out = self.graph[op.outputs[0]]
        value = float(_real(np.array(op.int("value"), np.int8), out))
        return anp.pad(x, pairs, "constant", constant_values=value)

    _pad_v2 = _pad

    def _reshape(self, op: Op, x: Any) -> Any:
        return anp.reshape(x, self.graph[op.outputs[0]].shape)

    def _concatenation(self, op: Op, *parts: Any) -> Any:
        return anp.concatenate(parts, axis=op.int("axis"))

    def _relu(self, op: Op, x: Any) -> Any:
        return x

    _relu6 = _relu
    _quantize = _relu

    def _softmax(self, op: Op, x: Any) -> Any:
        scaled = op.float("beta") * x
        powers = anp.exp(scaled - np.max(getval(scaled), axis=-1, keepdims=True))
        return powers / anp.sum(powers, axis=-1, keepdims=True)


def _real(values: Array, tensor: Tensor) -> Array:
    quant = tensor.q
    return (values.astype(np.float64) - quant.zero_point) * float(np.float32(quant.scale0))


def _taps(op: Op, x: Any, kernel: tuple[int, int], padding_value: float = 0.0) -> Any:
    """(row, column, [1, out_h, out_w, C]) for each tap of a window, by TFLite's padding rule."""
    extents = []
    for axis in (0, 1):
        size, stride = x.shape[1 + axis], op.ints("stride")[axis]
        dilation = op.ints("dilation")[axis]
        reach = (kernel[axis] - 1) * dilation + 1
        if op.str("padding") == "SAME":
            out = -(-size // stride)
            total = max((out - 1) * stride + reach - size, 0)
        else:
            out, total = (size - reach) // stride + 1, 0
        before = total // 2
        after = max((out - 1) * stride + reach - size - before, 0)
        extents.append((out, stride, dilation, before, after))
    (out_h, stride_h, dilation_h, *pad_h), (out_w, stride_w, dilation_w, *pad_w) = extents
    pads = ((0, 0), tuple(pad_h), tuple(pad_w), (0, 0))
    padded = anp.pad(x, pads, "constant", constant_values=padding_value)
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            top, left = row * dilation_h, column * dilation_w
            bottom, right = top + (out_h - 1) * stride_h + 1, left + (out_w - 1) * stride_w + 1
            yield row, column, padded[:, top:bottom:stride_h, left:right:stride_w, :]
