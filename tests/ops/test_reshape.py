from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import check_gradients
from tests.support.ckernel import assert_kernels
from tests.support.conformance import conforms, forward_cases, graph_of, model_of
from tests.support.tflite_builder import Builder, Ref
from tinytrain.errors import TinytrainError
from tinytrain.ops.base import definition
from tinytrain.reader import read

SHAPE = (1, 4, 5, 6)


@pytest.mark.parametrize("shape", [(1, -1), (4, -1, 3), (120,), (1, 2, 3, 4, 5), (-1,)])
def test_forward_agrees_with_tflite(shape: tuple[int, ...]) -> None:
    conforms(lambda b, x: b.reshape(x, shape), SHAPE)


def test_options_alone_say_the_shape() -> None:
    def make(b: Builder, x: Ref) -> Ref:
        y = b.tensor("y", (20, 6), scale=0.05, zero_point=3)
        return b.op("RESHAPE", (x,), y, "ReshapeOptions", {"NewShape": (20, 6)})

    conforms(make, SHAPE)


@pytest.mark.parametrize("shape", [(7, -1), (1, 119), (-2, 60)])
def test_a_shape_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    def make(b: Builder, x: Ref) -> Ref:
        y = b.tensor("y", SHAPE, scale=0.05, zero_point=3)
        target = b.constant("s", np.array(shape, np.int32))
        return b.op("RESHAPE", (x, target), y, "ReshapeOptions", {"NewShape": shape})

    with pytest.raises(TinytrainError):
        read(model_of(make, SHAPE))


def test_a_change_of_scale_is_refused() -> None:
    def make(b: Builder, x: Ref) -> Ref:
        y = b.tensor("y", (20, 6), scale=0.06, zero_point=3)
        return b.op("RESHAPE", (x,), y, "ReshapeOptions", {"NewShape": (20, 6)})

    with pytest.raises(TinytrainError):
        read(model_of(make, SHAPE))


def test_the_error_takes_the_shape_of_the_input_and_moves_nothing() -> None:
    graph = graph_of(lambda b, x: b.reshape(x, (20, -1)), SHAPE)
    x = np.random.default_rng(0).integers(-128, 128, SHAPE, dtype=np.int8)
    result = check_gradients(graph, x, lambda v: v.reshape(20, 6))
    (op,) = result.graph.ops
    assert definition(op).alias
    (error,) = result.contributions[graph.inputs[0]]
    assert error[1:] == result.given[1:]
    assert_kernels([*forward_cases(graph, x), *result.cases()])
