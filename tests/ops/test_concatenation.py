from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import check_gradients
from tests.support.ckernel import assert_kernels
from tests.support.conformance import Make, conforms, forward_cases, graph_of, model_of
from tests.support.tflite_builder import Builder, Ref
from tinytrain.errors import TinytrainError
from tinytrain.reader import read

SHAPE = (1, 4, 5, 6)


def _parts(axis: int, count: int) -> Make:
    """The input, a constant and a RELU of the input, in turn."""

    def make(b: Builder, x: Ref) -> Ref:
        shape = list(SHAPE)
        shape[axis] = 2
        data = np.random.default_rng(1).integers(-128, 128, shape, dtype=np.int8)
        choices = [x, b.constant("c", data, 0.05, zero_point=3), b.relu(x)]
        return b.concatenation([choices[i % 3] for i in range(count)], axis=axis)

    return make


@pytest.mark.parametrize("count", [1, 2, 3, 10])
@pytest.mark.parametrize("axis", [1, 2, 3, -1, -2])
def test_forward_agrees_with_tflite(axis: int, count: int) -> None:
    # tflite-micro takes at most ten parts
    conforms(_parts(axis, count), SHAPE)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_each_part_takes_its_slice(axis: int) -> None:
    graph = graph_of(_parts(axis, 3), SHAPE)
    x = np.random.default_rng(0).integers(-128, 128, SHAPE, dtype=np.int8)
    result = check_gradients(graph, x, lambda *v: np.concatenate(v, axis=axis))
    assert [op.kind for op in result.graph.ops] == ["crop", "crop"]
    assert len(result.contributions) == 2
    assert_kernels([*forward_cases(graph, x), *result.cases()])


def test_sixteen_parts_in_c() -> None:
    graph = graph_of(_parts(3, 16), SHAPE)
    x = np.random.default_rng(0).integers(-128, 128, SHAPE, dtype=np.int8)
    assert_kernels(forward_cases(graph, x))


def test_seventeen_parts_are_refused() -> None:
    with pytest.raises(TinytrainError):
        read(model_of(_parts(3, 17), SHAPE))


def test_unequal_scales_are_refused() -> None:
    def make(b: Builder, x: Ref) -> Ref:
        return b.concatenation([x, b.relu(x, out_scale=0.06)])

    with pytest.raises(TinytrainError):
        read(model_of(make, SHAPE))


def test_an_activation_is_refused() -> None:
    with pytest.raises(TinytrainError):
        read(model_of(lambda b, x: b.concatenation([x, x], activation="RELU"), SHAPE))
