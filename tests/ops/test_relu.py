from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import check_gradients, open_between
from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import Make, conforms, forward_cases, graph_of
from tests.support.tflite_builder import Builder, Ref
from tinytrain.ir import Graph

SHAPE = (1, 4, 8, 8)
ALL_VALUES = np.arange(-128, 128, dtype=np.int8).reshape(SHAPE)
INPUTS = [(0.05, 3), (0.0234, -128), (0.002, 0), (3.0, 100)]
OUTPUTS: list[tuple[float | None, int | None]] = [
    *[(None, None), (0.03, -128), (0.5, 3), (0.05, 0), (1e-8, 77), (1e8, -77)]
]


def _make(kind: str, out_scale: float | None, out_zero_point: int | None) -> Make:
    def make(b: Builder, x: Ref) -> Ref:
        relu = b.relu if kind == "relu" else b.relu6
        return relu(x, out_scale=out_scale, out_zero_point=out_zero_point)

    return make


def _graph(kind: str, out: tuple[float | None, int | None], source: tuple[float, int]) -> Graph:
    return graph_of(_make(kind, *out), SHAPE, *source)


@pytest.mark.parametrize("kind", ["relu", "relu6"])
@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize(("scale", "zero_point"), INPUTS)
def test_forward_agrees_with_tflite(
    kind: str, out: tuple[float | None, int | None], scale: float, zero_point: int
) -> None:
    conforms(_make(kind, *out), SHAPE, scale=scale, zero_point=zero_point, count=8)


@pytest.mark.parametrize(
    ("kind", "out", "source", "low", "high"),
    [
        ("relu", (None, None), (0.05, 3), 3, 128),
        ("relu", (0.02, -128), (0.05, 3), -128, 127),
        ("relu6", (None, None), (0.06, 0), 0, 100),
        ("relu6", (0.05, -100), (0.06, 0), -100, 20),
    ],
)
def test_the_error_passes_where_nothing_was_clamped(
    kind: str,
    out: tuple[float | None, int | None],
    source: tuple[float, int],
    low: int,
    high: int,
) -> None:
    graph = _graph(kind, out, source)
    result = check_gradients(graph, ALL_VALUES, lambda v: v, open_between(low, high))
    (op,) = result.graph.ops
    assert op.kind == "mask_error"
    (error,) = result.contributions[graph.inputs[0]]
    assert error[1:] == result.given[1:]
    assert_kernels([*forward_cases(graph, ALL_VALUES), *result.cases()])


def test_a_relu_that_cannot_act_needs_no_mask() -> None:
    graph = _graph("relu", (None, None), (0.05, -128))
    result = check_gradients(graph, ALL_VALUES, lambda v: v)
    assert not result.graph.ops


def test_c_agrees() -> None:
    cases: list[Case] = []
    for kind in ("relu", "relu6"):
        for out in OUTPUTS:
            for source in INPUTS:
                cases += forward_cases(_graph(kind, out, source), ALL_VALUES)
    assert_kernels(cases)
