from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import Shadow, check_gradients
from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import conforms, forward_cases, graph_of, model_of, samples
from tests.support.tflite_builder import Builder, Ref
from tests.support.tflite_writer import Array
from tinytrain.errors import TinytrainError
from tinytrain.numeric import fixed_exp
from tinytrain.reader import read

SCALES = [1e-6, 0.001, 0.05, 0.3, 1.0, 5.0, 40.0, 1e9]
DEPTHS = [1, 2, 10, 300]


@pytest.mark.parametrize("beta", [1.0, 0.5, 2.3])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("scale", SCALES)
def test_forward_agrees_with_tflite(scale: float, depth: int, beta: float) -> None:
    conforms(lambda b, x: b.softmax(x, beta=beta), (1, depth), scale=scale, zero_point=7)


def test_rows_of_higher_ranks() -> None:
    conforms(lambda b, x: b.softmax(x), (1, 3, 4, 5), scale=0.1)


def test_flat_rows_of_a_thousand_are_zero() -> None:
    graph = graph_of(lambda b, x: b.softmax(x), (1, 1000))
    cases = forward_cases(graph, np.zeros((1, 1000), np.int8))
    assert np.all(cases[0].after[graph.outputs[0]] == -128)
    assert_kernels(cases)


def test_exponential_is_accurate() -> None:
    x = np.linspace(-30.0, 0.0, 1001)
    raw = np.round(x * 2**26).astype(np.int64)
    got = fixed_exp.exp_on_negative_values(raw) / 2.0**31
    np.testing.assert_allclose(got, np.exp(raw / 2.0**26), rtol=0, atol=2e-7)


def test_reciprocal_is_accurate() -> None:
    for total in [1 << 19, (1 << 19) + 1, 3 << 19, 999999999, (1 << 31) - 1]:
        value, bits = fixed_exp.reciprocal(total)
        assert value / 2.0 ** (31 + bits) == pytest.approx(2.0**19 / total, rel=1e-7)


def test_another_output_scale_is_refused() -> None:
    def make(b: Builder, x: Ref) -> Ref:
        y = b.tensor("y", x.shape, scale=0.01, zero_point=-128)
        return b.op("SOFTMAX", (x,), y, "SoftmaxOptions", {"Beta": 1.0}, 2)

    with pytest.raises(TinytrainError):
        read(model_of(make, (1, 10)))


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), 1e-20])
def test_a_useless_beta_is_refused(beta: float) -> None:
    with pytest.raises(TinytrainError):
        read(model_of(lambda b, x: b.softmax(x, beta=beta), (1, 10)))


def _softmax(beta: float) -> Shadow:
    def run(x: Array) -> Array:
        e = np.exp(beta * (x - x.max(axis=-1, keepdims=True)))
        return np.asarray(e / e.sum(axis=-1, keepdims=True))

    return run


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("shape", [(1, 10), (1, 4, 3, 6)])
def test_gradient(shape: tuple[int, ...], beta: float) -> None:
    graph = graph_of(lambda b, x: b.softmax(x, beta=beta), shape, 0.02)
    x = np.random.default_rng(2).integers(-128, 128, shape, dtype=np.int8)
    # probabilities have eight bits
    result = check_gradients(graph, x, _softmax(beta), cosine=0.98, size=0.1)
    assert [op.kind for op in result.graph.ops] == ["softmax_input_error"]
    assert_kernels(result.cases())


def test_c_agrees() -> None:
    rng = np.random.default_rng(0)
    cases: list[Case] = []
    for scale in SCALES:
        for depth in DEPTHS:
            graph = graph_of(lambda b, x: b.softmax(x, beta=0.9), (1, depth), scale, 7)
            for x in samples(rng, (1, depth), 7, 8):
                cases += forward_cases(graph, x)
    assert_kernels(cases)
