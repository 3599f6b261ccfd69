from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support import float_layers
from tests.support.backward import check_gradients, finite_differences, open_between
from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import (
    Make,
    conforms,
    forward_cases,
    graph_of,
    model_of,
    run_graph,
    samples,
)
from tests.support.tflite_builder import Builder, Ref
from tests.support.tflite_writer import Array
from tests.support.training import Training, assert_step_follows_the_gradient, train_layer
from tinytrain.errors import TinytrainError
from tinytrain.ir import Graph
from tinytrain.reader import read

Pair = tuple[int, int]
SHAPE = (1, 9, 7, 3)
KERNELS: list[Pair] = [(1, 1), (3, 3), (2, 3), (5, 4)]
STRIDES: list[Pair] = [(1, 1), (2, 2), (3, 1)]
DILATIONS: list[Pair] = [(1, 1), (2, 2), (1, 3)]


def _geometry() -> list[tuple[Pair, Pair, Pair, str]]:
    """What fits: dilated windows larger than the input need SAME; TFLite strides or dilates."""
    found = []
    for kernel, stride, dilation, padding in itertools.product(
        KERNELS, STRIDES, DILATIONS, ("SAME", "VALID")
    ):
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        if padding == "SAME" or (reach[0] <= SHAPE[1] and reach[1] <= SHAPE[2]):
            found.append((kernel, stride, dilation, padding))
    return found


GEOMETRY = _geometry()


def _conv(
    kernel: Pair = (3, 3),
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: str = "SAME",
    *,
    channels: int = 4,
    activation: str = "NONE",
    per_channel: bool = True,
    bias: bool = True,
    out_scale: float = 0.06,
) -> Make:
    rng = np.random.default_rng(kernel[0] * 8 + kernel[1])

    def make(b: Builder, x: Ref) -> Ref:
        shape = (channels, *kernel, x.shape[3])
        weights = rng.integers(-127, 128, shape, dtype=np.int8)
        scales = rng.uniform(0.002, 0.02, channels) if per_channel else [0.01]
        values = rng.integers(-3000, 3000, channels).astype(np.int32) if bias else None
        return b.conv2d(
            x,
            weights,
            scales,
            values,
            out_scale=out_scale,
            out_zero_point=-11,
            stride=stride,
            dilation=dilation,
            padding=padding,
            activation=activation,
        )

    return make


def _input(seed: int = 0, shape: tuple[int, ...] = SHAPE) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8)


@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding"), GEOMETRY)
def test_forward_agrees_with_tflite(
    kernel: Pair, stride: Pair, dilation: Pair, padding: str
) -> None:
    conforms(_conv(kernel, stride, dilation, padding), SHAPE, count=9)


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_options(activation: str, per_channel: bool, bias: bool) -> None:
    make = _conv(activation=activation, per_channel=per_channel, bias=bias)
    conforms(make, SHAPE, zero_point=-128)


@pytest.mark.parametrize("out_scale", [1e-7, 1e-3, 2.0, 1e5])
def test_unusual_output_scales(out_scale: float) -> None:
    conforms(_conv(out_scale=out_scale), SHAPE)


def test_ties_round_as_in_tflite() -> None:
    """Accumulators that fall on halves of an output step, of both signs."""

    def make(b: Builder, x: Ref) -> Ref:
        weights = np.array([[[[1]]], [[[-1]]], [[[3]]]], np.int8)
        return b.conv2d(x, weights, 0.5, out_scale=0.1, out_zero_point=1)

    shape = (1, 16, 16, 1)
    x = np.arange(-128, 128, dtype=np.int8).reshape(shape)
    from tests.support.conformance import assert_conforms

    for scale in (0.1, 0.05, 0.025, 0.0125):
        assert_conforms(model_of(make, shape, scale, 0), [x])


def test_grouped_convolution_is_refused() -> None:
    def make(b: Builder, x: Ref) -> Ref:
        return b.conv2d(x, np.ones((4, 1, 1, 2), np.int8), 0.01, out_scale=0.1)

    with pytest.raises(TinytrainError):
        read(model_of(make, (1, 4, 4, 4)))


def _weights(graph: Graph) -> Array:
    """The last operator's weights in real units."""
    w = graph[graph.ops[-1].inputs[1]]
    assert w.data is not None
    axis = w.q.axis or 0
    shape = [1] * len(w.shape)
    shape[axis] = -1
    return w.data.astype(np.float64) * w.q.scales(w.shape[axis]).astype(np.float64).reshape(shape)


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "padding"), [g for g in GEOMETRY if g[0] in ((3, 3), (2, 3))]
)
def test_input_error(kernel: Pair, stride: Pair, dilation: Pair, padding: str) -> None:
    make = _conv(kernel, stride, dilation, padding, activation="RELU", out_scale=0.5)
    graph = graph_of(make, SHAPE)

    def shadow(x: Array, *rest: Array) -> Array:
        return float_layers.conv2d(x, _weights(graph), stride, dilation, padding)

    result = check_gradients(graph, _input(), shadow, open_between(-11, 127))
    kinds = [op.kind for op in result.graph.ops]
    assert kinds == ["fold_error", "conv2d_input_error"]


@pytest.mark.parametrize(("stride", "padding"), [((1, 1), "SAME"), ((2, 2), "VALID")])
@pytest.mark.parametrize("channels", [(), (0, 2)])
def test_weight_step(channels: tuple[int, ...], stride: Pair, padding: str) -> None:
    graph = graph_of(_conv(stride=stride, padding=padding, out_scale=2.0), SHAPE)
    op, x = graph.ops[0], _input()
    result = train_layer(graph, x, Training(channels=channels))
    real = (x.astype(np.float64) - 3) * graph[op.inputs[0]].q.scale0
    y = run_graph(graph, x)[op.outputs[0]]
    wanted = result.real(result.given) * open_between(-128, 127)(y)
    gradient = finite_differences(
        lambda w: float_layers.conv2d(real, w, stride, (1, 1), padding), _weights(graph), wanted
    )
    part = gradient[..., list(channels)] if channels else gradient
    assert_step_follows_the_gradient(result, graph, op.inputs[1], part)


def test_c_forward_agrees() -> None:
    rng = np.random.default_rng(0)
    cases: list[Case] = []
    for i, geometry in enumerate(GEOMETRY):
        activation = ("NONE", "RELU6")[i % 2]
        graph = graph_of(_conv(*geometry, activation=activation, bias=i % 3 > 0), SHAPE)
        for x in samples(rng, SHAPE, 3, 7):
            cases += forward_cases(graph, x)
    assert_kernels(cases)


@pytest.mark.parametrize("out_scale", [1e-3, 0.3])
def test_c_forward_agrees_over_channels(out_scale: float) -> None:
    """Windows of less and more than sixteen bytes, channels that fill no group of four."""
    rng = np.random.default_rng(1)
    cases: list[Case] = []
    for channels, depth in itertools.product((1, 3, 4, 6, 9), (1, 16, 21)):
        shape = (1, 6, 5, depth)
        for geometry in (((1, 1), (1, 1)), ((1, 1), (2, 2)), ((3, 2), (1, 1))):
            graph = graph_of(_conv(*geometry, channels=channels, out_scale=out_scale), shape)
            for x in samples(rng, shape, 3, 2):
                cases += forward_cases(graph, x)
    assert_kernels(cases)


def test_c_backward_agrees() -> None:
    cases: list[Case] = []
    for i, (state, batch, tau, channels) in enumerate(
        itertools.product(("int8", "int16", "float32"), (False, True), (0.0, 0.001), ((), (0, 2)))
    ):
        kernel, stride, dilation, padding = GEOMETRY[(7 * i) % len(GEOMETRY)]
        make = _conv(kernel, stride, dilation, padding, per_channel=i % 3 > 0, out_scale=0.3)
        graph = graph_of(make, SHAPE)
        training = Training(state, channels, tau, batch, rate=0.01)
        for apply in (False, True):
            cases += train_layer(graph, _input(i), training, apply=apply).cases()
    assert {"conv2d_input_error", "conv2d_update", "bias_update", "apply_weights"} <= {
        case.op.kind for case in cases
    }
    assert_kernels(cases)


def test_c_updates_alike_at_any_rate() -> None:
    """Steps from far below a fraction's unit to those that saturate, rows of any length."""
    cases: list[Case] = []
    for i, rate in enumerate((1e-5, 1e-3, 0.1, 3.0, 1e3, 1e6)):
        for channels in (3, 8, 13):
            graph = graph_of(_conv((1, 1), channels=5), (1, 3, 4, channels))
            x = np.random.default_rng(i).integers(-128, 128, (1, 3, 4, channels), dtype=np.int8)
            for tau in (0.0, 0.002):
                training = Training("int16", (), tau, False, rate)
                cases += train_layer(graph, x, training).cases()
    assert_kernels(cases)
