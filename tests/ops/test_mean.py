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
from tinytrain.errors import TinytrainError
from tinytrain.reader import read

SHAPE = (1, 7, 5, 6)
ALTERNATING = np.where(np.arange(210) % 3, -128, 127).astype(np.int8).reshape(SHAPE)
AXES = [
    *[(1, 2), (2, 1), (-3, -2), (1,), (2,), (3,), (-1,), (1, 3), (2, 3), (1, 2, 3), (0, 1), (0,)],
    (1, 1, -3),
]
# scale and zero point of the output; None: those of the input
QUANTS: list[tuple[float | None, int | None]] = [
    (None, None),
    (0.05, 0),
    (0.03, -4),
    (0.5, 3),
    (1e-9, 77),
    (1e7, -77),
]


def _mean(
    axis: tuple[int, ...],
    quant: tuple[float | None, int | None] = (None, None),
    *,
    keep_dims: bool = False,
) -> Make:
    def make(b: Builder, x: Ref) -> Ref:
        return b.mean(
            x, axis=axis, keep_dims=keep_dims, out_scale=quant[0], out_zero_point=quant[1]
        )

    return make


@pytest.mark.parametrize("quant", QUANTS)
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_forward_agrees_with_tflite(
    axis: tuple[int, ...], keep_dims: bool, quant: tuple[float | None, int | None]
) -> None:
    conforms(_mean(axis, quant, keep_dims=keep_dims), SHAPE, count=10)


@pytest.mark.parametrize("shape", [(1, 6), (1, 5, 6), (1, 2, 3, 4, 2), (1, 1, 1, 9), (1,)])
def test_other_ranks(shape: tuple[int, ...]) -> None:
    rank = len(shape)
    axis = tuple(range(1, rank - 1)) or (rank - 1,)
    conforms(lambda b, x: b.mean(x, axis=axis), shape)


def test_many_groups_of_axes_are_refused() -> None:
    model = model_of(lambda b, x: b.mean(x, axis=(1, 3, 5)), (1, 2, 2, 2, 2, 2, 2))
    with pytest.raises(TinytrainError):
        read(model)


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axis", [(1, 2), (1,), (2,), (3,), (1, 3), (2, 3), (0,)])
def test_gradient_repeats_the_integers(axis: tuple[int, ...], keep_dims: bool) -> None:
    graph = graph_of(lambda b, x: b.mean(x, axis=axis, keep_dims=keep_dims), SHAPE)
    x = np.random.default_rng(0).integers(-128, 128, SHAPE, dtype=np.int8)
    result = check_gradients(graph, x, lambda v: v.mean(axis=axis))
    assert [op.kind for op in result.graph.ops] == ["spread_error"]


def test_a_smaller_scale_saturates_and_masks() -> None:
    graph = graph_of(lambda b, x: b.mean(x, axis=(3,), out_scale=0.01, out_zero_point=0), SHAPE)
    x = np.random.default_rng(0).integers(-128, 128, SHAPE, dtype=np.int8)
    result = check_gradients(graph, x, lambda v: v.mean(axis=3), open_between(-128, 127))
    assert [op.kind for op in result.graph.ops] == ["mask_error", "spread_error"]
    assert_kernels(result.cases())


def test_c_agrees() -> None:
    rng = np.random.default_rng(0)
    cases: list[Case] = []
    for axis in AXES:
        for quant in QUANTS:
            graph = graph_of(_mean(axis, quant), SHAPE)
            for x in samples(rng, SHAPE, 3, 7):
                cases += forward_cases(graph, x)
            error = random_error(rng, graph[graph.outputs[0]].shape)
            values = run_graph(graph, ALTERNATING)
            cases += run_backward(Recorder(graph), values, error).cases()
    assert_kernels(cases)
