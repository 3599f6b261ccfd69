"""Every operator the builder writes runs in the reference interpreters, in the shape it said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.support import referee
from tests.support.tflite_builder import Builder, Ref
from tests.support.tflite_writer import Array

Make = Callable[[Builder, Ref, np.random.Generator], Ref]

pytestmark = pytest.mark.interpreter


def _w(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-127, 128, shape, dtype=np.int8)


def _bias(rng: np.random.Generator, n: int) -> Array:
    return rng.integers(-2000, 2000, n).astype(np.int32)


def _scales(rng: np.random.Generator, n: int) -> Array:
    return rng.uniform(0.001, 0.01, n).astype(np.float32)


CASES: dict[str, Make] = {
    "conv2d": lambda b, x, r: b.conv2d(x, _w(r, 5, 3, 3, 4), 0.01, _bias(r, 5), out_scale=0.1),
    "conv2d_per_channel_strided_valid": lambda b, x, r: b.conv2d(
        x,
        _w(r, 5, 3, 2, 4),
        _scales(r, 5),
        _bias(r, 5),
        out_scale=0.1,
        out_zero_point=-128,
        stride=(2, 1),
        padding="VALID",
        activation="RELU6",
    ),
    "conv2d_dilated": lambda b, x, r: b.conv2d(
        x, _w(r, 5, 3, 3, 4), _scales(r, 5), _bias(r, 5), out_scale=0.1, dilation=(2, 1)
    ),
    "conv2d_without_bias": lambda b, x, r: b.conv2d(x, _w(r, 5, 3, 3, 4), 0.01, out_scale=0.1),
    "depthwise": lambda b, x, r: b.depthwise_conv2d(
        x, _w(r, 1, 3, 3, 4), _scales(r, 4), _bias(r, 4), out_scale=0.1, activation="RELU"
    ),
    "depthwise_multiplier_strided": lambda b, x, r: b.depthwise_conv2d(
        x, _w(r, 1, 3, 3, 8), _scales(r, 8), _bias(r, 8), out_scale=0.1, stride=(2, 2)
    ),
    "depthwise_dilated_without_bias": lambda b, x, r: b.depthwise_conv2d(
        x, _w(r, 1, 3, 3, 4), 0.01, out_scale=0.1, dilation=(2, 2), padding="VALID"
    ),
    "fully_connected": lambda b, x, r: b.fully_connected(
        x, _w(r, 7, 168), 0.001, _bias(r, 7), out_scale=0.3, activation="RELU"
    ),
    "fully_connected_per_channel_keep_dims": lambda b, x, r: b.fully_connected(
        x, _w(r, 7, 4), _scales(r, 7), _bias(r, 7), out_scale=0.3, keep_num_dims=True
    ),
    "fully_connected_without_bias": lambda b, x, r: b.fully_connected(
        x, _w(r, 7, 168), 0.001, out_scale=0.3
    ),
    "add_itself": lambda b, x, r: b.add(x, x, out_scale=0.1, out_zero_point=3),
    "add_constant": lambda b, x, r: b.add(
        x, b.constant("c", _w(r, 4), 0.02, zero_point=2), out_scale=0.1, activation="RELU6"
    ),
    "mul_constant": lambda b, x, r: b.mul(
        x, b.constant("c", _w(r, 1, 1, 1, 4), 0.02), out_scale=0.1
    ),
    "average_pool_same": lambda b, x, r: b.average_pool2d(
        x, size=(3, 3), stride=(2, 2), padding="SAME"
    ),
    "average_pool_relu": lambda b, x, r: b.average_pool2d(x, size=(2, 3), activation="RELU"),
    "max_pool": lambda b, x, r: b.max_pool2d(x, size=(2, 2)),
    "max_pool_same": lambda b, x, r: b.max_pool2d(
        x, size=(3, 2), stride=(2, 1), padding="SAME", activation="RELU6"
    ),
    "mean": lambda b, x, r: b.mean(x),
    "mean_keep_dims_rescaled": lambda b, x, r: b.mean(
        x, axis=(-3, -2), keep_dims=True, out_scale=0.03, out_zero_point=7
    ),
    "mean_channels": lambda b, x, r: b.mean(x, axis=(3,)),
    "pad": lambda b, x, r: b.pad(x, [(0, 0), (1, 2), (0, 1), (1, 0)]),
    "reshape": lambda b, x, r: b.reshape(x, (1, -1)),
    "concatenation": lambda b, x, r: b.concatenation([x, x], axis=-1),
    "relu": lambda b, x, r: b.relu(x),
    "relu_rescaled": lambda b, x, r: b.relu(x, out_scale=0.07, out_zero_point=-128),
    "relu6": lambda b, x, r: b.relu6(x),
    "relu6_rescaled": lambda b, x, r: b.relu6(x, out_scale=0.07, out_zero_point=-128),
    "softmax": lambda b, x, r: b.softmax(x, beta=0.5),
    "quantize_rescales": lambda b, x, r: b.quantize(x, out_scale=0.033, out_zero_point=4),
    "dequantize": lambda b, x, r: b.dequantize(x),
}


@pytest.mark.parametrize("case", CASES)
def test_operator_runs_in_the_referees(case: str) -> None:
    rng = np.random.default_rng(list(case.encode()))
    b = Builder()
    x = b.input("x", (1, 7, 6, 4), scale=0.05, zero_point=-3)
    y = CASES[case](b, x, rng)
    b.output(y)
    panel = referee.Panel(b.build())
    if case == "conv2d_without_bias":
        # TFLite's own CONV_2D insists on a bias; only TFLM does not.
        assert "tflm" not in panel.refused
    else:
        assert panel.refused == {}
    for _ in range(5):
        for run in panel.referees:
            value = run.run(_w(rng, 1, 7, 6, 4)).tensors[y.index]
            assert value.shape == y.shape
            assert value.dtype == y.dtype


@pytest.mark.parametrize("case", CASES)
def test_referees_agree_where_they_are_trusted(case: str) -> None:
    rng = np.random.default_rng(list(case.encode()))
    b = Builder()
    x = b.input("x", (1, 7, 6, 4), scale=0.05, zero_point=-3)
    before = b.conv2d(x, _w(rng, 4, 1, 1, 4), 0.01, _bias(rng, 4), out_scale=0.1)
    b.output(CASES[case](b, before, rng))
    panel = referee.Panel(b.build())
    for _ in range(5):
        panel.run(_w(rng, 1, 7, 6, 4))


def test_float_borders() -> None:
    rng = np.random.default_rng(0)
    b = Builder()
    x = b.input("x", (1, 10), dtype="float32")
    q = b.quantize(x, out_scale=0.05, out_zero_point=-1)
    q = b.fully_connected(q, _w(rng, 3, 10), 0.01, _bias(rng, 3), out_scale=0.1)
    y = b.dequantize(q)
    b.output(y)
    got = referee.Panel(b.build()).run(rng.normal(size=(1, 10)).astype(np.float32))
    assert got[y.index].dtype == np.float32
    np.testing.assert_array_equal(got[y.index], got[q.index].astype(np.float32) * np.float32(0.1))


def test_the_same_calls_give_the_same_bytes() -> None:
    def build() -> bytes:
        rng = np.random.default_rng(1)
        b = Builder()
        x = b.input("x", (1, 7, 6, 4), scale=0.05)
        b.output(b.conv2d(x, _w(rng, 5, 3, 3, 4), 0.01, _bias(rng, 5), out_scale=0.1))
        return b.build()

    assert build() == build()


def test_constants_are_aligned_in_the_file() -> None:
    marker = np.frombuffer(b"0123456789abcdef" * 9, np.int8).reshape(1, 1, 1, 144)
    b = Builder()
    x = b.input("x", (1, 1, 1, 144), scale=0.05)
    b.output(b.depthwise_conv2d(x, marker, 0.01, np.zeros(144, np.int32), out_scale=0.1))
    assert b.build().index(b"0123456789abcdef" * 9) % 16 == 0


def test_names_are_made_unique() -> None:
    b = Builder()
    x = b.input("x", (1, 4), scale=0.05)
    first, second = b.relu(x), b.relu(x)
    b.output(first)
    b.output(second)
    data = b.build()
    assert b"relu\0" in data
    assert b"relu_2\0" in data
