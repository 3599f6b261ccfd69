from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import (
    Recorder,
    check_gradients,
    open_between,
    random_error,
    run_backward,
)
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
from tinytrain.errors import InputError, TinytrainError
from tinytrain.ir import Graph
from tinytrain.reader import read

SHAPE = (1, 4, 5, 6)
SHAPES = [SHAPE, (6,), (1, 1, 1, 6), (1, 4, 1, 6), (1, 4, 5, 1), (1,), (1, 1, 5, 1), (5, 1)]
OWN_SHAPES = [(1, 6), (1, 5, 1), (1, 4, 1, 6), (1, 1, 5, 1), (1, 1), SHAPE]
ACTIVATIONS = ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]


def _constant(b: Builder, shape: tuple[int, ...]) -> Ref:
    data = np.random.default_rng(len(shape)).integers(-128, 128, shape, dtype=np.int8)
    return b.constant("c", data, 0.07, zero_point=-9)


def _with_constant(shape: tuple[int, ...], activation: str, *, swap: bool) -> Make:
    """The input and a constant of this shape, or the other way round."""

    def make(b: Builder, x: Ref) -> Ref:
        pair = (_constant(b, shape), x) if swap else (x, _constant(b, shape))
        return b.mul(*pair, out_scale=0.2, out_zero_point=-20, activation=activation)

    return make


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_agrees_with_tflite(shape: tuple[int, ...], activation: str) -> None:
    swap = len(shape) % 2 == 1
    conforms(_with_constant(shape, activation, swap=swap), SHAPE)


@pytest.mark.parametrize("out_scale", [1e-9, 1e-6, 0.011, 3.0, 1e7])
@pytest.mark.parametrize("scale", [0.0003, 0.05, 7.0])
def test_forward_agrees_at_unequal_scales(scale: float, out_scale: float) -> None:
    conforms(
        lambda b, x: b.mul(x, _constant(b, SHAPE), out_scale=out_scale, out_zero_point=90),
        SHAPE,
        scale=scale,
        zero_point=-128,
    )


def test_an_absurd_scale_ratio_is_refused() -> None:
    model = model_of(lambda b, x: b.mul(x, x, out_scale=1e-12), SHAPE)
    with pytest.raises(TinytrainError):
        read(model)


def _gated(activation: str) -> Graph:
    """Squeeze and excite: positions times a mean over positions."""

    def make(b: Builder, x: Ref) -> Ref:
        mean = b.mean(x, axis=(1, 2), keep_dims=True, out_scale=0.02, out_zero_point=20)
        return b.mul(x, mean, out_scale=0.04, out_zero_point=-20, activation=activation)

    return graph_of(make, SHAPE)


def test_both_operands_take_their_error() -> None:
    cases: list[Case] = []
    for seed, (activation, low, high) in enumerate(
        [("NONE", -128, 127), ("RELU", -20, 127), ("RELU6", -20, 127), ("RELU_N1_TO_1", -45, 5)]
    ):
        graph = _gated(activation)
        x = np.random.default_rng(seed).integers(-128, 128, SHAPE, dtype=np.int8)
        result = check_gradients(graph, x, lambda a, b: a * b, open_between(low, high))
        kinds = [op.kind for op in result.graph.ops]
        assert kinds == ["mask_error", "mul_input_error", "mul_input_error"]
        cases += result.cases()
    assert_kernels(cases)


def _repeated(shape: tuple[int, ...], other: tuple[int, ...]) -> Graph:
    return graph_of(lambda b, x: b.mul(_constant(b, other), b.relu(x), out_scale=3.0), shape)


@pytest.mark.parametrize("other", SHAPES)
@pytest.mark.parametrize("shape", OWN_SHAPES)
def test_repeats_along_any_axes(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Also where each operand is repeated along the other's axes."""
    graph = _repeated(shape, other)
    x = np.random.default_rng(1).integers(-128, 128, shape, dtype=np.int8)
    result = check_gradients(graph, x, lambda a, b: a * b, size=0.15)  # few elements, coarse
    assert [op.kind for op in result.graph.ops] == ["mul_input_error"]


def test_c_backward_agrees_along_any_axes() -> None:
    cases: list[Case] = []
    for shape in OWN_SHAPES:
        for other in SHAPES:
            graph = _repeated(shape, other)
            x = np.random.default_rng(len(cases)).integers(-128, 128, shape, dtype=np.int8)
            values = run_graph(graph, x)
            error = random_error(np.random.default_rng(1), graph[graph.outputs[0]].shape)
            cases += run_backward(Recorder(graph), values, error).cases()
    assert_kernels(cases)


def test_the_square_takes_two_errors() -> None:
    graph = graph_of(lambda b, x: b.mul(x, x, out_scale=3.0), SHAPE)
    x = np.random.default_rng(1).integers(-128, 128, SHAPE, dtype=np.int8)
    result = check_gradients(graph, x, lambda a, b: a * b)
    assert len(result.contributions[graph.inputs[0]]) == 2
    assert_kernels(result.cases())


def test_too_many_repeats_are_refused_in_training() -> None:
    def make(b: Builder, x: Ref) -> Ref:
        return b.mul(x, b.mean(x, axis=(1, 2), keep_dims=True), out_scale=3.0)

    shape = (1, 300, 300, 1)
    graph = graph_of(make, shape)
    with pytest.raises(InputError, match="repeated 90000 times"):
        check_gradients(graph, np.zeros(shape, np.int8), lambda a, b: a * b)


def test_c_agrees() -> None:
    rng = np.random.default_rng(0)
    cases: list[Case] = []
    for shape in SHAPES:
        for activation in ("NONE", "RELU6"):
            for swap in (False, True):
                graph = graph_of(_with_constant(shape, activation, swap=swap), SHAPE)
                for x in samples(rng, SHAPE, 3, 7):
                    cases += forward_cases(graph, x)
    assert_kernels(cases)
