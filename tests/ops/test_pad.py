from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import Shadow, check_gradients
from tests.support.ckernel import assert_kernels
from tests.support.conformance import Make, conforms, forward_cases, graph_of, model_of
from tests.support.tflite_builder import Builder, Ref
from tests.support.tflite_writer import Array
from tinytrain.errors import TinytrainError
from tinytrain.reader import read

Pairs = list[tuple[int, int]]
CASES: list[tuple[tuple[int, ...], Pairs]] = [
    ((1, 4, 5, 6), [(0, 0), (1, 2), (0, 3), (2, 0)]),
    ((1, 4, 5, 6), [(0, 0), (1, 1), (1, 1), (0, 0)]),
    ((1, 4, 5, 6), [(0, 0), (0, 0), (0, 0), (0, 0)]),
    ((1, 4, 5), [(0, 0), (3, 0), (0, 2)]),
    ((1, 4), [(1, 2), (0, 1)]),
    ((1,), [(2, 3)]),
]


def _real_pad(pairs: Pairs) -> Shadow:
    return lambda v: np.pad(v, pairs)


@pytest.mark.parametrize(("shape", "pairs"), CASES)
def test_forward_agrees_with_tflite(shape: tuple[int, ...], pairs: Pairs) -> None:
    conforms(lambda b, x: b.pad(x, pairs), shape)


@pytest.mark.parametrize(("shape", "pairs"), CASES)
def test_gradient_is_the_inner_part(shape: tuple[int, ...], pairs: Pairs) -> None:
    graph = graph_of(lambda b, x: b.pad(x, pairs), shape)
    x = np.random.default_rng(0).integers(-128, 128, shape, dtype=np.int8)
    result = check_gradients(graph, x, _real_pad(pairs))
    assert [op.kind for op in result.graph.ops] == ["crop"]
    assert_kernels([*forward_cases(graph, x), *result.cases()])


def _pad_v2(value: Array, scale: float) -> Make:
    def make(b: Builder, x: Ref) -> Ref:
        amounts = b.constant("p", np.array([[0, 0], [1, 2]], np.int32))
        v = b.constant("v", value, scale, zero_point=3)
        y = b.tensor("y", (1, 7), scale=0.05, zero_point=3)
        return b.op("PADV2", (x, amounts, v), y, "PadV2Options", {}, 2)

    return make


def test_pad_v2_agrees_with_tflite() -> None:
    make = _pad_v2(np.array([-77], np.int8), 0.05)
    conforms(make, (1, 4))
    graph = graph_of(make, (1, 4))
    assert_kernels(forward_cases(graph, np.ones((1, 4), np.int8)))


def test_pad_v2_with_a_value_at_another_scale_is_refused() -> None:
    with pytest.raises(TinytrainError):
        read(model_of(_pad_v2(np.array([-77], np.int8), 0.06), (1, 4)))


def test_rank_five_is_refused() -> None:
    with pytest.raises(TinytrainError):
        read(model_of(lambda b, x: b.pad(x, [(0, 0)] * 5), (1, 2, 2, 2, 2)))
