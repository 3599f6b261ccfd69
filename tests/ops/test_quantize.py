from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import check_gradients, open_between
from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import Make, conforms, forward_cases, graph_of, model_of
from tests.support.tflite_builder import Builder, Ref
from tinytrain.errors import TinytrainError
from tinytrain.reader import read

SHAPE = (1, 4, 8, 8)
ALL_VALUES = np.arange(-128, 128, dtype=np.int8).reshape(SHAPE)
SCALES = [(0.05, 3), (0.0234, -128), (1.7, 100), (1e-8, 77), (1e8, -77)]


def _quantize(scale: float, zero_point: int) -> Make:
    return lambda b, x: b.quantize(x, out_scale=scale, out_zero_point=zero_point)


@pytest.mark.parametrize("out", SCALES)
@pytest.mark.parametrize("source", SCALES[:3])
def test_forward_agrees_with_tflite(out: tuple[float, int], source: tuple[float, int]) -> None:
    conforms(
        _quantize(*out),
        SHAPE,
        scale=source[0],
        zero_point=source[1],
        count=8,
    )


def test_the_error_passes_where_nothing_saturated() -> None:
    graph = graph_of(lambda b, x: b.quantize(x, out_scale=0.03), SHAPE)
    result = check_gradients(graph, ALL_VALUES, lambda v: v, open_between(-128, 127))
    assert [op.kind for op in result.graph.ops] == ["mask_error"]
    assert_kernels([*forward_cases(graph, ALL_VALUES), *result.cases()])


def test_a_larger_scale_needs_no_mask() -> None:
    graph = graph_of(lambda b, x: b.quantize(x, out_scale=0.2), SHAPE)
    assert not check_gradients(graph, ALL_VALUES, lambda v: v).graph.ops


def test_c_agrees() -> None:
    cases: list[Case] = []
    for scale, zero_point in SCALES:
        cases += forward_cases(graph_of(_quantize(scale, zero_point), SHAPE), ALL_VALUES)
    assert_kernels(cases)


def test_float_inside_is_refused() -> None:
    def make(b: Builder, x: Ref) -> Ref:
        inside = b.dequantize(b.relu(x))
        return b.relu(b.quantize(inside, out_scale=0.1))

    with pytest.raises(TinytrainError):
        read(model_of(make, SHAPE))
