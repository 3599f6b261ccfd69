"""Small models for the reader's tests, made by the builder."""

from __future__ import annotations

import numpy as np

from tests.support.tflite_builder import Builder, Ref

RNG_SEED = 7


def weights(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    """Random int8 weights."""
    return np.random.default_rng(RNG_SEED).integers(-127, 128, shape).astype(np.int8)


def bias(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """Random int32 biases."""
    return np.random.default_rng(RNG_SEED).integers(-999, 1000, count).astype(np.int32)


def image(b: Builder, *shape: int) -> Ref:
    """An int8 input."""
    return b.input("x", shape or (1, 8, 8, 4), scale=0.05, zero_point=-3)


def finish(b: Builder, y: Ref) -> bytes:
    """Make `y` the output."""
    b.output(y)
    return b.build()


def every_operator() -> bytes:
    """One model that holds each operator at least once, about 5 KB."""
    b = Builder()
    x = image(b)
    scales = [0.01, 0.02, 0.03, 0.04]
    y = b.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    y = b.conv2d(
        y, weights(4, 3, 3, 4), scales, bias(4), out_scale=0.1, stride=(2, 2), padding="VALID",
        activation="RELU6",
    )  # fmt: skip
    side = b.depthwise_conv2d(y, weights(1, 3, 3, 4), scales, bias(4), out_scale=0.1)
    y = b.add(y, side, out_scale=0.15, out_zero_point=3)
    side = b.max_pool2d(y, size=(2, 2), stride=(1, 1), padding="SAME")
    y = b.concatenation([y, side])
    y = b.relu(y, out_scale=0.12, out_zero_point=-128)
    y = b.mul(y, b.constant("gain", weights(1, 1, 1, 8), 0.02), out_scale=0.2)
    y = b.relu6(y, out_scale=0.05, out_zero_point=-128)
    y = b.average_pool2d(y, size=(2, 2))
    y = b.quantize(y, out_scale=0.06, out_zero_point=1)
    side = b.mean(y, keep_dims=False)
    y = b.reshape(y, (1, -1))
    y = b.concatenation([y, side], axis=1)
    y = b.fully_connected(y, weights(5, 40), 0.01, bias(5), out_scale=0.3, out_zero_point=2)
    y = b.softmax(y)
    return finish(b, y)
