"""The panel of reference interpreters knows what each of them gets wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import referee
from tests.support.needs import need
from tests.support.tflite_builder import Builder


def _add_behind_reshape() -> tuple[bytes, int, int, int]:
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (4, 1, 1, 4), dtype=np.int8)
    bias = np.zeros(4, np.int32)
    b = Builder()
    x = b.input("x", (1, 4, 4, 4), scale=0.05)
    conv = b.conv2d(x, weights, 0.01, bias, out_scale=0.1)
    flat = b.reshape(conv, (1, 1, 16, 4))
    total = b.add(flat, b.constant("c", weights[0], 0.1), out_scale=0.2)
    b.output(b.conv2d(total, weights, 0.01, bias, out_scale=0.1))
    return b.build(), conv.index, flat.index, total.index


def test_tflite_runtime_doubts_what_add_overwrites_also_behind_a_reshape() -> None:
    need("interpreter", "tflite-runtime")
    model, conv, flat, total = _add_behind_reshape()
    x = np.random.default_rng(1).integers(-128, 128, (1, 4, 4, 4), dtype=np.int8)
    trace = referee.Referee("tflite-runtime", model).run(x)
    assert {conv, flat} <= set(trace.doubts)
    assert total in trace.trusted()
    np.testing.assert_array_equal(trace.tensors[flat].ravel(), trace.tensors[total].ravel())


def test_litert_doubts_everything_from_the_fully_connected_on() -> None:
    need("interpreter", "litert")
    b = Builder()
    x = b.input("x", (1, 8), scale=0.05)
    before = b.relu(x)
    y = b.fully_connected(before, np.ones((3, 8), np.int8), 0.01, out_scale=0.3)
    z = b.softmax(y)
    b.output(z)
    trace = referee.Referee("litert", b.build()).run(np.ones((1, 8), np.int8))
    assert set(trace.trusted()) == {before.index}
    assert set(trace.doubts) == {y.index, z.index}


@pytest.mark.parametrize("out_scale", [0.05, 0.07])
def test_tflm_doubts_a_rescaling_relu6_alone(out_scale: float) -> None:
    need("interpreter", "tflm")
    b = Builder()
    x = b.input("x", (1, 8), scale=0.05)
    y = b.relu6(x, out_scale=out_scale)
    b.output(y)
    trace = referee.Referee("tflm", b.build()).run(np.ones((1, 8), np.int8))
    assert (y.index in trace.doubts) == (out_scale != 0.05)


def test_tflite_runtime_doubts_per_channel_fully_connected_of_higher_rank() -> None:
    need("interpreter", "tflite-runtime")
    b = Builder()
    x = b.input("x", (1, 2, 8), scale=0.05)
    weights = np.ones((3, 8), np.int8)
    y = b.fully_connected(x, weights, [0.1, 0.2, 0.3], out_scale=0.3, keep_num_dims=True)
    b.output(y)
    trace = referee.Referee("tflite-runtime", b.build()).run(np.ones((1, 2, 8), np.int8))
    assert y.index in trace.doubts


def test_panel_returns_every_tensor_where_tflm_is_there() -> None:
    need("interpreter", "tflm")
    model, *indices = _add_behind_reshape()
    x = np.zeros((1, 4, 4, 4), np.int8)
    assert set(indices) <= set(referee.Panel(model).run(x))


def test_operators_are_listed_in_order() -> None:
    model, *_ = _add_behind_reshape()
    kinds = [op.kind for op in referee.operators(model)]
    assert kinds == ["CONV_2D", "RESHAPE", "ADD", "CONV_2D"]
