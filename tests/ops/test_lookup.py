from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.backward import check_gradients
from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import Make, conforms, forward_cases, graph_of
from tests.support.tflite_builder import Builder, Ref
from tests.support.tflite_writer import Array
from tinytrain.errors import InputError
from tinytrain.ir import Graph
from tinytrain.ops.lookup import Logistic, Tanh
from tinytrain.reader import read

SHAPE = (1, 4, 8, 8)
ALL_VALUES = np.arange(-128, 128, dtype=np.int8).reshape(SHAPE)
INPUTS = [(0.05, 3), (0.0234, -128), (0.002, 0), (3.0, 100)]
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "logistic": lambda v: 1 / (1 + np.exp(-v)),
    "tanh": np.tanh,
}


def _make(kind: str) -> Make:
    def make(b: Builder, x: Ref) -> Ref:
        return b.logistic(x) if kind == "logistic" else b.tanh(x)

    return make


def _graph(kind: str, scale: float, zero_point: int) -> Graph:
    return graph_of(_make(kind), SHAPE, scale, zero_point)


@pytest.mark.parametrize("kind", ["logistic", "tanh"])
@pytest.mark.parametrize(("scale", "zero_point"), INPUTS)
def test_forward_agrees_with_tflite(kind: str, scale: float, zero_point: int) -> None:
    conforms(_make(kind), SHAPE, scale=scale, zero_point=zero_point, count=8)


@pytest.mark.parametrize("kind", ["logistic", "tanh"])
@pytest.mark.parametrize(("scale", "zero_point"), INPUTS[:3])
def test_gradient_is_that_of_the_function(kind: str, scale: float, zero_point: int) -> None:
    graph = _graph(kind, scale, zero_point)
    result = check_gradients(graph, ALL_VALUES, FUNCTIONS[kind], cosine=0.98)
    assert_kernels([*forward_cases(graph, ALL_VALUES), *result.cases()])


def test_slopes_fill_their_range() -> None:
    for rules in (Logistic(), Tanh()):
        slopes = rules.slopes()
        assert slopes.max() == 127
        assert slopes.min() >= 0


def test_c_agrees() -> None:
    cases: list[Case] = []
    for kind in FUNCTIONS:
        for source in INPUTS:
            cases += forward_cases(_graph(kind, *source), ALL_VALUES)
    assert_kernels(cases)


def test_another_output_scale_is_refused() -> None:
    b = Builder()
    x = b.input("x", (1, 8), scale=0.1)
    b.output(b.op("LOGISTIC", (x,), b.tensor("y", x.shape, scale=0.01, zero_point=-128)))
    with pytest.raises(InputError, match="output scale other than 1/256"):
        read(b.build())
