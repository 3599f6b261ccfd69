from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import check_gradients, open_between
from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import Make, conforms, forward_cases, graph_of, model_of, samples
from tests.support.tflite_builder import Builder, Ref
from tinytrain.errors import TinytrainError
from tinytrain.reader import read

SHAPE = (1, 4, 5, 6)
SHAPES = [SHAPE, (6,), (1, 1, 1, 6), (1, 4, 1, 6), (1, 4, 5, 1), (1,), (1, 1, 5, 1), (5, 1)]
ACTIVATIONS = ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]


def _constant(b: Builder, shape: tuple[int, ...]) -> Ref:
    data = np.random.default_rng(len(shape)).integers(-128, 128, shape, dtype=np.int8)
    return b.constant("c", data, 0.07, zero_point=-9)


def _with_constant(shape: tuple[int, ...], activation: str, *, swap: bool) -> Make:
    """The input and a constant of this shape, or the other way round."""

    def make(b: Builder, x: Ref) -> Ref:
        pair = (_constant(b, shape), x) if swap else (x, _constant(b, shape))
        return b.add(*pair, out_scale=0.09, out_zero_point=-20, activation=activation)

    return make


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_agrees_with_tflite(shape: tuple[int, ...], activation: str) -> None:
    swap = len(shape) % 2 == 1
    conforms(_with_constant(shape, activation, swap=swap), SHAPE)


@pytest.mark.parametrize("out_scale", [2e-7, 0.011, 3.0, 1e6])
@pytest.mark.parametrize("scale", [0.0003, 0.05, 7.0])
def test_forward_agrees_at_unequal_scales(scale: float, out_scale: float) -> None:
    if scale == 7.0 and out_scale == 2e-7:
        return  # refused, see below
    conforms(
        lambda b, x: b.add(x, _constant(b, SHAPE), out_scale=out_scale, out_zero_point=90),
        SHAPE,
        scale=scale,
        zero_point=-128,
    )


def test_an_operand_twice() -> None:
    conforms(lambda b, x: b.add(x, x, out_scale=0.1), SHAPE)


def test_an_output_scale_too_small_is_refused() -> None:
    model = model_of(lambda b, x: b.add(x, x, out_scale=1e-7), SHAPE, 7.0)
    with pytest.raises(TinytrainError):
        read(model)


def test_rank_five_is_refused() -> None:
    with pytest.raises(TinytrainError):
        read(model_of(lambda b, x: b.add(x, x, out_scale=1.0), (1, 2, 1, 2, 2)))


def _residual(activation: str) -> Make:
    """Both operands are activations; the second is a mean over positions, repeated."""

    def make(b: Builder, x: Ref) -> Ref:
        mean = b.mean(x, axis=(1, 2), keep_dims=True)
        return b.add(x, mean, out_scale=0.06, out_zero_point=-20, activation=activation)

    return make


def test_the_error_passes_to_both_operands() -> None:
    cases: list[Case] = []
    for seed, (activation, low, high) in enumerate(
        [("NONE", -128, 127), ("RELU", -20, 127), ("RELU6", -20, 80), ("RELU_N1_TO_1", -37, -3)]
    ):
        graph = graph_of(_residual(activation), SHAPE)
        x = np.random.default_rng(seed).integers(-128, 128, SHAPE, dtype=np.int8)
        mask = open_between(low, high)
        result = check_gradients(graph, x, lambda a, b: a + b, mask)
        kinds = [op.kind for op in result.graph.ops]
        assert kinds == ["mask_error", "reduce_error"]
        cases += result.cases()
    assert_kernels(cases)


def test_no_operator_where_nothing_is_clamped_or_repeated() -> None:
    graph = graph_of(lambda b, x: b.add(x, x, out_scale=0.2, out_zero_point=3), SHAPE)
    x = np.random.default_rng(0).integers(-128, 128, SHAPE, dtype=np.int8)
    result = check_gradients(graph, x, lambda a, b: a + b)
    assert not result.graph.ops
    assert len(result.contributions[graph.inputs[0]]) == 2


@pytest.mark.parametrize(
    "shape", [(1, 6), (1, 5, 1), (1, 4, 1, 6), (1, 1, 5, 1), (1, 1), (1, 4, 5, 6)]
)
def test_repeats_along_any_axes_sum(shape: tuple[int, ...]) -> None:
    def make(b: Builder, x: Ref) -> Ref:
        return b.add(_constant(b, SHAPE), b.relu(x), out_scale=0.5)

    graph = graph_of(make, shape)
    x = np.random.default_rng(1).integers(-128, 128, shape, dtype=np.int8)
    result = check_gradients(graph, x, lambda a, b: a + b)
    assert_kernels([*forward_cases(graph, x), *result.cases()])


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
