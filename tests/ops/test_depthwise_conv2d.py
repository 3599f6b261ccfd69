from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support import float_layers
from tests.support.backward import check_gradients, finite_differences, open_between
from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import Make, conforms, forward_cases, graph_of, run_graph, samples
from tests.support.tflite_builder import Builder, Ref
from tests.support.tflite_writer import Array
from tests.support.training import Training, assert_step_follows_the_gradient, train_layer
from tinytrain.ir import Graph

Pair = tuple[int, int]
SHAPE = (1, 8, 7, 3)
KERNELS: list[Pair] = [(1, 1), (3, 3), (4, 2)]
STRIDES: list[Pair] = [(1, 1), (2, 2), (3, 3)]
DILATIONS: list[Pair] = [(1, 1), (2, 2)]
GEOMETRY = list(itertools.product(KERNELS, STRIDES, DILATIONS, ("SAME", "VALID")))


def _depthwise(
    kernel: Pair = (3, 3),
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: str = "SAME",
    *,
    multiplier: int = 1,
    activation: str = "NONE",
    per_channel: bool = True,
    bias: bool = True,
    out_scale: float = 0.04,
) -> Make:
    rng = np.random.default_rng(kernel[0] * 8 + kernel[1])

    def make(b: Builder, x: Ref) -> Ref:
        channels = x.shape[3] * multiplier
        weights = rng.integers(-127, 128, (1, *kernel, channels), dtype=np.int8)
        scales = rng.uniform(0.002, 0.02, channels) if per_channel else [0.01]
        values = rng.integers(-3000, 3000, channels).astype(np.int32) if bias else None
        return b.depthwise_conv2d(
            x,
            weights,
            scales,
            values,
            out_scale=out_scale,
            out_zero_point=17,
            stride=stride,
            dilation=dilation,
            padding=padding,
            activation=activation,
        )

    return make


def _input(seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, SHAPE, dtype=np.int8)


def _real_weights(graph: Graph) -> Array:
    w = graph[graph.ops[-1].inputs[1]]
    assert w.data is not None
    return w.data * w.q.scales(w.shape[3]).astype(np.float64)


@pytest.mark.parametrize("multiplier", [1, 2, 4])
@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding"), GEOMETRY)
def test_forward_agrees_with_tflite(
    kernel: Pair, stride: Pair, dilation: Pair, padding: str, multiplier: int
) -> None:
    make = _depthwise(kernel, stride, dilation, padding, multiplier=multiplier)
    conforms(make, SHAPE, count=8)


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_options(activation: str, per_channel: bool, bias: bool) -> None:
    make = _depthwise(activation=activation, per_channel=per_channel, bias=bias, multiplier=3)
    conforms(make, SHAPE, zero_point=-128)


@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "padding"), [g for g in GEOMETRY if g[0] == (3, 3)]
)
def test_input_error(
    kernel: Pair, stride: Pair, dilation: Pair, padding: str, multiplier: int
) -> None:
    make = _depthwise(
        kernel, stride, dilation, padding, multiplier=multiplier, activation="RELU", out_scale=0.3
    )
    graph = graph_of(make, SHAPE)

    def shadow(x: Array, *rest: Array) -> Array:
        return float_layers.depthwise_conv2d(x, _real_weights(graph), stride, dilation, padding)

    # a strided, dilated window leaves few elements, which fill int8 less evenly
    check_gradients(graph, _input(), shadow, open_between(17, 127), cosine=0.985)


@pytest.mark.parametrize("multiplier", [1, 2])
def test_weight_step(multiplier: int) -> None:
    graph = graph_of(_depthwise(multiplier=multiplier, out_scale=1.0), SHAPE)
    op, x = graph.ops[0], _input()
    result = train_layer(graph, x, Training())
    real = (x.astype(np.float64) - 3) * graph[op.inputs[0]].q.scale0
    y = run_graph(graph, x)[op.outputs[0]]
    wanted = result.real(result.given) * open_between(-128, 127)(y)
    gradient = finite_differences(
        lambda w: float_layers.depthwise_conv2d(real, w, (1, 1), (1, 1), "SAME"),
        _real_weights(graph),
        wanted,
    )
    assert_step_follows_the_gradient(result, graph, op.inputs[1], gradient)


def test_c_forward_agrees() -> None:
    rng = np.random.default_rng(0)
    cases: list[Case] = []
    for i, geometry in enumerate(GEOMETRY):
        activation = ("NONE", "RELU6")[i % 2]
        make = _depthwise(*geometry, bias=i % 3 > 0, activation=activation, multiplier=1 + i % 4)
        graph = graph_of(make, SHAPE)
        for x in samples(rng, SHAPE, 3, 7):
            cases += forward_cases(graph, x)
    assert_kernels(cases)


@pytest.mark.parametrize("out_scale", [1e-3, 0.3])
def test_c_forward_agrees_over_channels(out_scale: float) -> None:
    """Numbers of channels round those that vectors hold."""
    rng = np.random.default_rng(1)
    cases: list[Case] = []
    for i, channels in enumerate((1, 5, 8, 13, 16, 21, 32)):
        shape = (1, 7, 6, channels)
        for geometry in (((3, 3), (1, 1)), ((3, 2), (2, 2)), ((2, 3), (1, 1), (2, 2))):
            make = _depthwise(*geometry, bias=i % 3 > 0, out_scale=out_scale)
            graph = graph_of(make, shape)
            for x in samples(rng, shape, 3, 2):
                cases += forward_cases(graph, x)
    assert_kernels(cases)


def test_c_backward_agrees() -> None:
    cases: list[Case] = []
    for i, (state, batch, tau) in enumerate(
        itertools.product(("int8", "int16", "float32"), (False, True), (0.0, 0.001))
    ):
        geometry = GEOMETRY[(5 * i) % len(GEOMETRY)]
        make = _depthwise(*geometry, multiplier=1 + i % 3, per_channel=i % 3 > 0, out_scale=0.2)
        graph = graph_of(make, SHAPE)
        for apply in (False, True):
            training = Training(state, (), tau, batch, rate=0.01)
            cases += train_layer(graph, _input(i), training, apply=apply).cases()
    assert_kernels(cases)
