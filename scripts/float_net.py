"""A small float32 network in NumPy: convolution, pooling, dense, softmax cross-entropy, Adam.

In: arrays, NHWC. Out: layers with trained parameters. Must not know: quantization, files, the task.
It exists so that the demo's model can be made again without a deep learning framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


class Layer(Protocol):
    """One step of a sequential network; `parameters` and `gradients` run in parallel."""

    parameters: list[Array]
    gradients: list[Array]

    def forward(self, x: Array) -> Array: ...

    def backward(self, error: Array) -> Array: ...


class Conv:
    """Convolution, stride 1, SAME, ReLU; weights (kh, kw, in, out), or (kh, kw, 1, c) depthwise."""

    def __init__(
        self, rng: np.random.Generator, size: int, depth: int, units: int, depthwise: bool = False
    ) -> None:
        fan_in = size * size * (1 if depthwise else depth)
        shape = (size, size, 1 if depthwise else depth, units)
        self.depthwise = depthwise
        self.weights = _he(rng, shape, fan_in)
        self.bias = np.zeros(units, np.float32)
        self.parameters = [self.weights, self.bias]
        self.gradients = [np.zeros_like(p) for p in self.parameters]

    def forward(self, x: Array) -> Array:
        size = self.weights.shape[0]
        margin = size // 2
        self._padded = np.pad(x, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
        y = np.zeros((*x.shape[:3], self.weights.shape[3]), x.dtype)
        for i, j in np.ndindex(size, size):
            patch = self._padded[:, i : i + x.shape[1], j : j + x.shape[2]]
            tap = self.weights[i, j]
            y += patch * tap[0] if self.depthwise else patch @ tap
        self._out = np.maximum(y + self.bias, 0)
        return self._out

    def backward(self, error: Array) -> Array:
        error = error * (self._out > 0)
        size, margin = self.weights.shape[0], self.weights.shape[0] // 2
        height, width = error.shape[1:3]
        back = np.zeros_like(self._padded)
        rows = error.reshape(-1, error.shape[3])
        for i, j in np.ndindex(size, size):
            window = (slice(None), slice(i, i + height), slice(j, j + width))
            patch, tap = self._padded[window], self.weights[i, j]
            if self.depthwise:
                self.gradients[0][i, j] = (patch * error).sum((0, 1, 2))
                back[window] += error * tap[0]
            else:
                self.gradients[0][i, j] = patch.reshape(-1, patch.shape[3]).T @ rows
                back[window] += error @ tap.T
        self.gradients[1][:] = rows.sum(0)
        return back[:, margin : margin + height, margin : margin + width]


class Pool:
    """2x2 pooling, stride 2, by maximum or average."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.parameters: list[Array] = []
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        n, h, w, c = x.shape
        self._cells = x.reshape(n, h // 2, 2, w // 2, 2, c)
        reduce = np.max if self.kind == "max" else np.mean
        out: Array = reduce(self._cells, axis=(2, 4))
        self._out = out
        return out

    def backward(self, error: Array) -> Array:
        n, h, _, w, _, c = self._cells.shape
        spread = error[:, :, None, :, None]
        if self.kind == "max":
            winners = self._cells == self._out[:, :, None, :, None]
            cells = spread * winners / winners.sum((2, 4), keepdims=True)
        else:
            cells = np.broadcast_to(spread / 4, self._cells.shape)
        back: Array = cells.reshape(n, 2 * h, 2 * w, c).astype(error.dtype)
        return back


class Dense:
    """Fully connected on the flattened input, no activation; weights (in, out)."""

    def __init__(self, rng: np.random.Generator, depth: int, units: int) -> None:
        self.weights = _he(rng, (depth, units), depth)
        self.bias = np.zeros(units, np.float32)
        self.parameters = [self.weights, self.bias]
        self.gradients = [np.zeros_like(p) for p in self.parameters]

    def forward(self, x: Array) -> Array:
        self._shape = x.shape
        self._rows = x.reshape(len(x), -1)
        logits: Array = self._rows @ self.weights + self.bias
        return logits

    def backward(self, error: Array) -> Array:
        self.gradients[0][:] = self._rows.T @ error
        self.gradients[1][:] = error.sum(0)
        back: Array = error @ self.weights.T
        return back.reshape(self._shape)


def _he(rng: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Array:
    return rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)


def forward(layers: Sequence[Layer], x: Array) -> list[Array]:
    """Return the output of every layer, the logits last."""
    outputs = []
    for layer in layers:
        x = layer.forward(x)
        outputs.append(x)
    return outputs


def backward(layers: Sequence[Layer], logits: Array, labels: npt.NDArray[np.int64]) -> None:
    """Fill all gradients of the mean softmax cross-entropy after a `forward`."""
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    error = shifted / shifted.sum(1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    for layer in reversed(layers):
        error = layer.backward(error)


@dataclass
class Adam:
    """Adam with decoupled weight decay (Kingma and Ba 2015; Loshchilov and Hutter 2019)."""

    layers: Sequence[Layer]
    decay: float = 1e-2
    beta1: float = 0.9
    beta2: float = 0.999
    steps: int = 0
    moments: list[tuple[Array, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start the moments at zero."""
        self.moments = [
            (np.zeros_like(p), np.zeros_like(p)) for layer in self.layers for p in layer.parameters
        ]

    def step(self, rate: float) -> None:
        """Update every parameter in place from its gradient."""
        self.steps += 1
        pairs = [
            pair
            for layer in self.layers
            for pair in zip(layer.parameters, layer.gradients, strict=True)
        ]
        for (value, gradient), (mean, square) in zip(pairs, self.moments, strict=True):
            mean += (1 - self.beta1) * (gradient - mean)
            square += (1 - self.beta2) * (gradient**2 - square)
            unbiased = mean / (1 - self.beta1**self.steps)
            root = np.sqrt(square / (1 - self.beta2**self.steps)) + 1e-8
            value -= rate * (unbiased / root + self.decay * value)
