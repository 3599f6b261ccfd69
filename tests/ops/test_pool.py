from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import (
    Recorder,
    Shadow,
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
from tests.support.tflite_writer import Array
from tinytrain.errors import TinytrainError
from tinytrain.ir import Graph
from tinytrain.ops.geometry import Window
from tinytrain.ops.pool import pool_window, window_counts
from tinytrain.reader import read

Pair = tuple[int, int]
SHAPE = (1, 7, 5, 3)
SIZES: list[Pair] = [(1, 1), (2, 2), (3, 3), (3, 2), (7, 5)]
STRIDES: list[Pair] = [(1, 1), (2, 2), (3, 1), (3, 3)]
GEOMETRY = [
    (size, stride, padding) for size in SIZES for stride in STRIDES for padding in ("SAME", "VALID")
]
KINDS = ["average", "max"]


def _pool(
    kind: str,
    size: Pair,
    stride: Pair,
    padding: str,
    activation: str = "NONE",
) -> Make:
    def make(b: Builder, x: Ref) -> Ref:
        pool = b.average_pool2d if kind == "average" else b.max_pool2d
        return pool(x, size=size, stride=stride, padding=padding, activation=activation)

    return make


def _graph(
    kind: str, size: Pair, stride: Pair, padding: str, activation: str = "NONE", *, side: int = 0
) -> Graph:
    shape = (1, side, side, 1) if side else SHAPE
    return graph_of(_pool(kind, size, stride, padding, activation), shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "stride", "padding"), GEOMETRY)
def test_forward_agrees_with_tflite(kind: str, size: Pair, stride: Pair, padding: str) -> None:
    for activation in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"):
        conforms(_pool(kind, size, stride, padding, activation), SHAPE)


@pytest.mark.parametrize("zero_point", [-128, 0, 127])
def test_rounding_does_not_depend_on_the_zero_point(zero_point: int) -> None:
    make = _pool("average", (2, 3), (1, 1), "SAME")
    conforms(make, (1, 6, 6, 4), zero_point=zero_point, count=20)


def _shadow(graph: Graph, kind: str) -> Shadow:
    """The pool over real numbers; of equal values the first in scan order counts."""
    op = graph.ops[-1]
    window = pool_window(op, graph[op.inputs[0]].shape)

    def run(x: Array) -> Array:
        padded = window.pad(x, 0)
        inside = window.pad(np.ones(x.shape), 0)
        order = window.pad(np.arange(x.size).reshape(x.shape), 0) * 1e-4
        taps = [padded[box] for _, _, box in window.taps()]
        valid = [inside[box] for _, _, box in window.taps()]
        if kind == "average":
            return np.asarray(np.sum(taps, axis=0) / np.sum(valid, axis=0))
        keys = [
            np.where(v > 0, t - order[box], -np.inf)
            for t, v, (_, _, box) in zip(taps, valid, window.taps(), strict=True)
        ]
        first = np.argmax(keys, axis=0)[None]
        return np.asarray(np.take_along_axis(np.stack(taps), first, 0)[0])

    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "stride", "padding"), GEOMETRY)
def test_gradient(kind: str, size: Pair, stride: Pair, padding: str) -> None:
    graph = _graph(kind, size, stride, padding)
    # few values, so that there are ties
    x = np.random.default_rng(3).integers(-2, 3, SHAPE, dtype=np.int8)
    # where all windows are one the three errors are coarse
    result = check_gradients(graph, x, _shadow(graph, kind), size=0.15)
    assert len(result.graph.ops) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
@pytest.mark.parametrize(
    ("activation", "low", "high"), [("RELU", 3, 127), ("RELU6", 3, 123), ("RELU_N1_TO_1", -17, 23)]
)
def test_a_fused_activation_masks(
    kind: str, stride: tuple[int, int], activation: str, low: int, high: int
) -> None:
    graph = _graph(kind, (2, 2), stride, "SAME", activation)
    x = np.random.default_rng(4).integers(-128, 128, SHAPE, dtype=np.int8)
    mask = open_between(low, high)
    shadow = _shadow(graph, kind)
    result = check_gradients(graph, x, shadow, mask, size=0.15)
    assert [op.kind for op in result.graph.ops][0] == "mask_error"


def test_disjoint_windows_copy_errors() -> None:
    kinds = {
        _kind(kind, padding): name
        for kind, padding, name in [
            ("average", "VALID", "average_pool2d_spread"),
            ("average", "SAME", "average_pool2d_input_error"),  # windows of unequal counts
            ("max", "VALID", "max_pool2d_route"),
            ("max", "SAME", "max_pool2d_route"),
        ]
    }
    assert all(found == wanted for found, wanted in kinds.items())


def _kind(kind: str, padding: str) -> str:
    graph = _graph(kind, (2, 2), (2, 2), padding)
    x = np.random.default_rng(5).integers(-128, 128, SHAPE, dtype=np.int8)
    result = check_gradients(graph, x, _shadow(graph, kind))
    return result.graph.ops[0].kind


def test_a_global_pool_only_changes_the_gain() -> None:
    graph = _graph("average", (7, 5), (7, 5), "VALID")
    x = np.random.default_rng(6).integers(-128, 128, SHAPE, dtype=np.int8)
    result = check_gradients(graph, x, _shadow(graph, "average"))
    (error,) = result.contributions[graph.inputs[0]]
    assert error.scale == result.given.scale
    assert error.gain == pytest.approx(result.given.gain / 35)
    spread = np.broadcast_to(result.values[result.given.tensor], SHAPE)
    np.testing.assert_array_equal(result.values[error.tensor], spread)


def test_counts_leave_padding_out() -> None:
    graph = _graph("average", (3, 3), (2, 2), "SAME", side=4)
    op = graph.ops[0]
    window = Window.of(op, (1, 4, 4, 1), (3, 3))
    np.testing.assert_array_equal(window_counts(window), [[9, 6], [6, 4]])


def test_another_scale_is_refused() -> None:
    def make(b: Builder, x: Ref) -> Ref:
        y = b.tensor("y", (1, 3, 2, 3), scale=0.06, zero_point=3)
        options = {"FilterHeight": 2, "FilterWidth": 2, "StrideH": 2, "StrideW": 2, "Padding": 1}
        return b.op("MAX_POOL_2D", (x,), y, "Pool2DOptions", options, 2)

    with pytest.raises(TinytrainError):
        read(model_of(make, SHAPE))


def test_c_backward_agrees() -> None:
    cases: list[Case] = []
    for kind in KINDS:
        for i, geometry in enumerate(GEOMETRY):
            graph = _graph(kind, *geometry, ("NONE", "RELU6")[i % 2])
            low = (-2, -128)[i // 2 % 2]  # few values have ties
            x = np.random.default_rng(i).integers(low, -low, SHAPE, dtype=np.int8)
            values = run_graph(graph, x)
            error = random_error(np.random.default_rng(i), graph[graph.outputs[0]].shape)
            cases += run_backward(Recorder(graph), values, error).cases()
    assert_kernels(cases)


def test_c_forward_agrees() -> None:
    rng = np.random.default_rng(0)
    cases: list[Case] = []
    for kind in KINDS:
        for size, stride, padding in GEOMETRY:
            graph = _graph(kind, size, stride, padding, "RELU6")
            for x in samples(rng, SHAPE, 3, 7):
                cases += forward_cases(graph, x)
    assert_kernels(cases)
