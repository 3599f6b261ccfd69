"""The NumPy trainer's gradients agree with finite differences of its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from scripts.float_net import Conv, Dense, Layer, Pool, backward, forward

Array = npt.NDArray[Any]


def _loss(layers: Sequence[Layer], x: Array, labels: Array) -> float:
    logits = forward(layers, x)[-1].astype(np.float64)
    shifted = logits - logits.max(1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(1))
    return float(np.mean(log_sum - shifted[np.arange(len(labels)), labels]))


@pytest.mark.parametrize("pool", ["max", "average"])
def test_gradients(pool: str) -> None:
    rng = np.random.default_rng(0)
    layers: list[Layer] = [
        Conv(rng, 3, 2, 4),
        Conv(rng, 3, 4, 4, depthwise=True),
        Pool(pool),
        Dense(rng, 16, 3),
    ]
    for layer in layers:
        # float64 makes the differences sharp, and a small step seldom crosses a kink of ReLU.
        layer.parameters[:] = [p.astype(np.float64) for p in layer.parameters]
        layer.gradients[:] = [g.astype(np.float64) for g in layer.gradients]
        if isinstance(layer, (Conv, Dense)):
            layer.weights, layer.bias = layer.parameters
            # A bias of 0 behind dark pixels would sit exactly on the kink.
            layer.bias += rng.normal(0, 0.1, layer.bias.shape)
    x: Array = rng.normal(size=(5, 4, 4, 2))
    labels = rng.integers(0, 3, 5)
    backward(layers, forward(layers, x)[-1], labels)
    for layer in layers:
        for value, gradient in zip(layer.parameters, layer.gradients, strict=True):
            direction = rng.normal(size=value.shape)
            step = 1e-7 * direction
            value += step
            above = _loss(layers, x, labels)
            value -= 2 * step
            below = _loss(layers, x, labels)
            value += step
            measured = (above - below) / 2e-7
            assert measured == pytest.approx(float((gradient * direction).sum()), rel=1e-5)
