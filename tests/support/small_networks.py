"""Small int8 networks that together hold every operator, with activations that fill int8.

In: nothing. Out: model files by name. Each is made so that a gradient passes through all its
operators. Must not know: training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.tflite_builder import Builder, Pair, Ref
from tests.support.tflite_writer import Array

CLASSES = 5
REACH = 4.0  # standard deviations that int8 holds


class Net:
    """A builder that chooses scales: it follows how large activations are (root mean square)."""

    def __init__(self, seed: int = 0) -> None:
        self.b = Builder()
        self.rng = np.random.default_rng(seed)
        self.rms: dict[int, float] = {}

    def image(self, *shape: int) -> Ref:
        x = self.b.input("x", shape, scale=2 * REACH / 255, zero_point=3)
        self.rms[x.index] = 1.0
        return x

    def _weights(
        self, shape: tuple[int, ...], axis: int, fan_in: int, per_channel: bool
    ) -> tuple[Array, Array]:
        """Weights that keep the size of what they are applied to; scales that differ by 4."""
        data = self.rng.normal(0, 40, shape).clip(-127, 127).round().astype(np.int8)
        spread = self.rng.uniform(-0.7, 0.7, shape[axis]) if per_channel else [0.0]
        return data, (np.exp(spread) / (40 * math.sqrt(fan_in))).astype(np.float32)

    def _layer(self, x: Ref, activation: str) -> tuple[float, dict[str, Any]]:
        """(rms of the sum, output quantization)."""
        rms = 1.1 * self.rms[x.index]
        positive = activation in ("RELU", "RELU6")
        reach = min(6.0, REACH * rms) if activation == "RELU6" else REACH * rms
        scale = reach / 255 if positive else 2 * reach / 255
        return rms, {"out_scale": scale, "out_zero_point": -128 if positive else -5}

    def _after(self, y: Ref, rms: float, activation: str) -> Ref:
        self.rms[y.index] = rms * (0.7 if activation != "NONE" else 1.0)
        return y

    def conv(
        self, x: Ref, channels: int, size: Pair = (3, 3), *, activation: str = "RELU",
        per_channel: bool = True, bias: bool = True, **options: Any,
    ) -> Ref:  # fmt: skip
        shape = (channels, *size, x.shape[3])
        data, scales = self._weights(shape, 0, math.prod(shape[1:]), per_channel)
        rms, quant = self._layer(x, activation)
        values = self._bias(x, scales, channels, rms) if bias else None
        y = self.b.conv2d(x, data, scales, values, activation=activation, **quant, **options)
        return self._after(y, rms, activation)

    def depthwise(
        self, x: Ref, multiple: int = 1, size: Pair = (3, 3), *, activation: str = "RELU6",
        per_channel: bool = True, **options: Any,
    ) -> Ref:  # fmt: skip
        channels = x.shape[3] * multiple
        data, scales = self._weights((1, *size, channels), 3, math.prod(size), per_channel)
        rms, quant = self._layer(x, activation)
        values = self._bias(x, scales, channels, rms)
        y = self.b.depthwise_conv2d(
            x, data, scales, values, activation=activation, **quant, **options
        )
        return self._after(y, rms, activation)

    def dense(
        self, x: Ref, units: int, *, depth: int = 0, activation: str = "NONE",
        per_channel: bool = False, bias: bool = True, keep_num_dims: bool = False,
    ) -> Ref:  # fmt: skip
        depth = depth or math.prod(x.shape)
        data, scales = self._weights((units, depth), 0, depth, per_channel)
        rms, quant = self._layer(x, activation)
        values = self._bias(x, scales, units, rms) if bias else None
        y = self.b.fully_connected(
            x, data, scales, values, activation=activation, keep_num_dims=keep_num_dims, **quant
        )
        return self._after(y, rms, activation)

    def _bias(self, x: Ref, scales: Array, count: int, rms: float) -> Array:
        real = self.rng.normal(0, 0.3 * rms, count)
        return np.rint(real / (x.scale * np.broadcast_to(scales, count))).astype(np.int32)

    def add(self, a: Ref, b: Ref, activation: str = "NONE") -> Ref:
        rms = math.hypot(self.rms[a.index], self.rms[b.index]) * 1.3
        y = self.b.add(a, b, activation=activation, **self._pair(rms, activation))
        return self._after(y, rms, activation)

    def mul(self, a: Ref, b: Ref, activation: str = "NONE") -> Ref:
        rms = self.rms[a.index] * self.rms[b.index] * 1.5
        y = self.b.mul(a, b, activation=activation, **self._pair(rms, activation))
        return self._after(y, rms, activation)

    @staticmethod
    def _pair(rms: float, activation: str) -> dict[str, Any]:
        positive = activation == "RELU"
        scale = REACH * rms / 255 * (1 if positive else 2)
        return {"out_scale": scale, "out_zero_point": -128 if positive else 4}

    def constant(self, *shape: int) -> Ref:
        data = self.rng.integers(-100, 101, shape).astype(np.int8)
        y = self.b.constant("gain", data, 0.02)
        self.rms[y.index] = 1.2
        return y

    def same(self, y: Ref, *sources: Ref) -> Ref:
        """Note that `y` is about as large as its sources."""
        self.rms[y.index] = max(self.rms[s.index] for s in sources)
        return y

    def done(self, y: Ref) -> bytes:
        self.b.output(y)
        return self.b.build()


def convolutions(per_channel: bool = True) -> bytes:
    """Strides, dilation, SAME and VALID, odd kernels, no bias; pooled by MEAN."""
    net = Net(1)
    y = net.conv(net.image(1, 11, 12, 3), 6, stride=(2, 2), per_channel=per_channel)
    y = net.conv(y, 8, dilation=(2, 2), activation="RELU6", per_channel=per_channel)
    y = net.conv(y, 6, (1, 3), stride=(1, 2), padding="VALID", activation="NONE", bias=False)
    y = net.conv(y, 7, (3, 2), stride=(2, 1), per_channel=per_channel)
    return net.done(net.dense(net.same(net.b.mean(y), y), CLASSES, per_channel=per_channel))


def depthwise(per_channel: bool = True) -> bytes:
    """Multipliers 1 and 2, stride, dilation; average pool and softmax at the end."""
    net = Net(2)
    y = net.depthwise(net.image(1, 12, 12, 3), 2, per_channel=per_channel)
    y = net.conv(y, 8, (1, 1), per_channel=per_channel)
    y = net.depthwise(y, stride=(2, 2), padding="VALID", per_channel=per_channel)
    y = net.depthwise(y, dilation=(2, 2), activation="NONE", per_channel=per_channel)
    y = net.conv(y, 8, (1, 1), per_channel=per_channel)
    y = net.same(net.b.average_pool2d(y, size=(5, 5)), y)
    y = net.same(net.b.reshape(y, (1, -1)), y)
    return net.done(net.b.softmax(net.dense(y, CLASSES)))


def residual() -> bytes:
    """Two blocks; the sums have two consumers, and one operand is broadcast."""
    net = Net(3)
    y = net.conv(net.image(1, 8, 8, 3), 6)
    for _ in range(2):
        inner = net.conv(net.conv(y, 6), 6, activation="NONE")
        y = net.add(y, inner, "RELU")
    row = net.conv(y, 6, (8, 1), padding="VALID", activation="NONE")
    y = net.add(y, row)
    return net.done(net.dense(net.same(net.b.mean(y, keep_dims=True), y), CLASSES))


def products() -> bytes:
    """Products of two branches, with a constant, and with a gate of one value a channel."""
    net = Net(4)
    x = net.image(1, 8, 8, 3)
    y = net.mul(net.conv(x, 6, activation="NONE"), net.conv(x, 6))
    y = net.mul(y, net.constant(1, 1, 1, 6))
    gate = net.same(net.b.mean(net.conv(y, 6), keep_dims=True), y)
    gate = net.conv(gate, 6, (1, 1), activation="NONE")
    y = net.mul(y, gate, "RELU")
    return net.done(net.dense(net.same(net.b.mean(y), y), CLASSES))


def pools() -> bytes:
    """Pools with and without overlap, PAD, CONCATENATION, RELU, RELU6, QUANTIZE."""
    net = Net(5)
    y = net.conv(net.image(1, 13, 13, 3), 6, activation="NONE", padding="VALID")
    y = net.same(net.b.relu(y, out_scale=y.scale / 2, out_zero_point=-128), y)
    y = net.same(net.b.max_pool2d(y, size=(3, 3), stride=(2, 2), padding="SAME"), y)
    y = net.conv(y, 6, activation="NONE")
    y = net.same(net.b.average_pool2d(y, size=(3, 3), stride=(1, 1), padding="SAME"), y)
    y = net.same(net.b.pad(y, [(0, 0), (1, 0), (2, 1), (0, 0)]), y)
    y = net.conv(y, 5, activation="NONE")
    y = net.same(net.b.quantize(y, out_scale=y.scale * 1.1, out_zero_point=9), y)
    side = net.same(net.b.max_pool2d(y, size=(2, 2)), y)
    main = net.same(net.b.average_pool2d(y, size=(2, 2)), y)
    y = net.same(net.b.concatenation([main, side]), main, side)
    y = net.conv(y, 6, activation="NONE")
    y = net.same(net.b.relu6(y, out_scale=6 / 255, out_zero_point=-128), y)
    return net.done(net.dense(y, CLASSES))


def rows() -> bytes:
    """Fully connected layers over rows, then over everything; ends in values."""
    net = Net(6)
    y = net.dense(net.image(1, 6, 10), 12, depth=10, activation="RELU", keep_num_dims=True)
    y = net.dense(y, 8, depth=12, activation="RELU", per_channel=True)
    y = net.same(net.b.reshape(y, (1, -1)), y)
    y = net.dense(y, 16, activation="RELU", bias=False)
    return net.done(net.dense(y, 20))


def softmax_values() -> bytes:
    """Probabilities as values, for a squared error through SOFTMAX."""
    net = Net(7)
    y = net.dense(net.image(1, 24), 16, activation="RELU")
    y = net.dense(y, CLASSES)
    # small logits, so that no probability is 0
    y = net.b.quantize(y, out_scale=y.scale * 2, out_zero_point=0)
    return net.done(net.b.softmax(y, beta=0.25))


NETWORKS: dict[str, Callable[[], bytes]] = {
    "convolutions": convolutions,
    "convolutions-per-tensor": lambda: convolutions(per_channel=False),
    "depthwise": depthwise,
    "depthwise-per-tensor": lambda: depthwise(per_channel=False),
    "residual": residual,
    "products": products,
    "pools": pools,
    "rows": rows,
    "softmax-values": softmax_values,
}
