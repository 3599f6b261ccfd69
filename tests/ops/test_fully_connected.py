from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support.backward import check_gradients, finite_differences, open_between
from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import Make, conforms, forward_cases, graph_of, run_graph, samples
from tests.support.tflite_builder import Builder, Ref
from tests.support.tflite_writer import Array
from tests.support.training import Training, assert_step_follows_the_gradient, train_layer
from tinytrain.ir import Graph, Op, Tensor

SHAPE = (1, 24)


def _dense(
    units: int = 5,
    depth: int = 24,
    *,
    activation: str = "NONE",
    per_channel: bool = False,
    bias: bool = True,
    out_scale: float = 0.09,
    keep_num_dims: bool = False,
) -> Make:
    rng = np.random.default_rng(units)

    def make(b: Builder, x: Ref) -> Ref:
        weights = rng.integers(-127, 128, (units, depth), dtype=np.int8)
        scales = rng.uniform(0.002, 0.02, units) if per_channel else [0.0123]
        values = rng.integers(-3000, 3000, units).astype(np.int32) if bias else None
        return b.fully_connected(
            x,
            weights,
            scales,
            values,
            out_scale=out_scale,
            out_zero_point=-7,
            activation=activation,
            keep_num_dims=keep_num_dims,
        )

    return make


def _input(seed: int = 0, shape: tuple[int, ...] = SHAPE) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8)


def _real_weights(graph: Graph) -> Array:
    w = graph[graph.ops[-1].inputs[1]]
    assert w.data is not None
    return np.asarray(w.data * w.q.scales(w.shape[0]).astype(np.float64)[:, None])


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("out_scale", [1e-6, 0.09, 3.0, 1e6])
def test_forward_agrees_with_tflite(
    activation: str, per_channel: bool, bias: bool, out_scale: float
) -> None:
    make = _dense(activation=activation, per_channel=per_channel, bias=bias, out_scale=out_scale)
    conforms(make, SHAPE, count=20)


@pytest.mark.parametrize("scale", list(np.random.default_rng(3).uniform(0.001, 1.0, 12)))
def test_requantization_rounds_twice(scale: float) -> None:
    conforms(_dense(units=64, out_scale=0.09 * scale / 0.05), SHAPE, scale=scale, count=20)


@pytest.mark.parametrize(
    ("shape", "depth", "keep"),
    [
        ((1, 2, 3, 4), 24, False),
        ((1, 6, 4), 4, False),
        ((1, 6, 4), 4, True),
        ((1, 2, 3, 4), 4, True),
    ],
)
def test_rows(shape: tuple[int, ...], depth: int, keep: bool) -> None:
    conforms(_dense(depth=depth, keep_num_dims=keep), shape)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("shape", "depth"), [(SHAPE, 24), ((1, 6, 4), 4), ((1, 2, 3, 4), 24)])
def test_input_error(shape: tuple[int, ...], depth: int, per_channel: bool) -> None:
    make = _dense(16, depth, per_channel=per_channel, activation="RELU", out_scale=0.3)
    graph = graph_of(make, shape)

    def shadow(x: Array, *rest: Array) -> Array:
        return x.reshape(-1, depth) @ _real_weights(graph).T

    result = check_gradients(graph, _input(0, shape), shadow, open_between(-7, 127))
    fold = "fold_error" if per_channel else "mask_error"
    assert [op.kind for op in result.graph.ops] == [fold, "fully_connected_input_error"]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("channels", [(), (1, 5, 23)])
@pytest.mark.parametrize("shape", [SHAPE, (1, 2, 3, 4)])
def test_weight_step(shape: tuple[int, ...], channels: tuple[int, ...], per_channel: bool) -> None:
    graph = graph_of(_dense(16, per_channel=per_channel, out_scale=0.5), shape)
    op, x = graph.ops[0], _input(0, shape)
    result = train_layer(graph, x, Training(channels=channels))
    real = (x.astype(np.float64) - 3) * graph[op.inputs[0]].q.scale0
    y = run_graph(graph, x)[op.outputs[0]]
    wanted = result.real(result.given) * open_between(-128, 127)(y)
    gradient = finite_differences(
        lambda w: real.reshape(-1, 24) @ w.T, _real_weights(graph), wanted
    )
    part = gradient[..., list(channels)] if channels else gradient
    assert_step_follows_the_gradient(result, graph, op.inputs[1], part)


def test_c_forward_agrees() -> None:
    rng = np.random.default_rng(0)
    cases: list[Case] = []
    for activation, per_channel, bias in itertools.product(
        ("NONE", "RELU6"), (False, True), (False, True)
    ):
        for shape, depth in ((SHAPE, 24), ((1, 6, 4), 4)):
            make = _dense(7, depth, activation=activation, per_channel=per_channel, bias=bias)
            graph = graph_of(make, shape)
            for x in samples(rng, shape, 3, 8):
                cases += forward_cases(graph, x)
    assert_kernels(cases)


def test_logits_are_the_accumulators() -> None:
    graph = graph_of(_dense(per_channel=True), SHAPE)
    (op,) = graph.ops
    out = Tensor(op.outputs[0], (1, 5), "int32")
    logits = Op("logits", op.name, op.inputs, op.outputs, op.attrs)
    graph = graph.with_ops([logits], [out])
    w, bias = graph[op.inputs[1]].data, graph[op.inputs[2]].data
    assert w is not None and bias is not None
    cases: list[Case] = []
    for x in samples(np.random.default_rng(0), SHAPE, 3):
        cases += forward_cases(graph, x)
        wanted = (x.astype(np.int64) - 3) @ w.astype(np.int64).T + bias
        np.testing.assert_array_equal(cases[-1].after[out.name], wanted)
    assert_kernels(cases)


def test_c_backward_agrees() -> None:
    cases: list[Case] = []
    for i, (state, batch, tau, channels) in enumerate(
        itertools.product(("int8", "int16", "float32"), (False, True), (0.0, 0.001), ((), (1, 3)))
    ):
        shape, depth = ((SHAPE, 24), ((1, 6, 4), 4), ((1, 2, 3, 4), 24))[i % 3]
        graph = graph_of(_dense(9, depth, per_channel=i % 2 > 0, out_scale=0.2), shape)
        for apply in (False, True):
            training = Training(state, channels, tau, batch, rate=0.01)
            cases += train_layer(graph, _input(i, shape), training, apply=apply).cases()
    assert_kernels(cases)
