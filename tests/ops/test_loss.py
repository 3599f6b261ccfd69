from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import run_op
from tests.support.ckernel import Case, assert_kernels
from tests.support.tflite_writer import Array
from tinytrain.ir import Attr, Graph, Op, Tensor
from tinytrain.numeric.quantize import Quant
from tinytrain.ops.base import Step

F32 = np.float32


def _run(op: Op, values: dict[str, Array], made: list[Tensor], seed: int) -> Case:
    tensors = {n: Tensor(n, v.shape, v.dtype.name) for n, v in values.items()}
    tensors |= {t.name: t for t in made}
    graph = Graph("loss", tensors, (op,), (), ())
    step = Step(seed, seed)
    before, after = run_op(graph, op, dict(values), step)
    return Case(op, graph, before, after, step)


def _scores(logits: Array, scales: Array, zero_point: int) -> Case:
    attrs: dict[str, Attr] = {"scales": tuple(float(s) for s in scales), "zero_point": zero_point}
    op = Op("class_scores", "scores", ("logits",), ("scores",), attrs)
    return _run(op, {"logits": logits}, [Tensor("scores", (max(2, logits.size),), "float32")], 0)


def _softmax(real: Array) -> Array:
    e = np.exp(real - real.max())
    return np.asarray(e / e.sum())


@pytest.mark.parametrize("classes", [1, 2, 10, 1000])
@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_class_scores(dtype: str, classes: int) -> None:
    rng = np.random.default_rng(classes)
    cases: list[Case] = []
    largest, unit = (127, 0.1) if dtype == "int8" else (200_000, 1e-4)
    for size in (1.0, 0.01):
        logits = rng.integers(-largest - 1, largest + 1, (1, classes)).astype(dtype)
        scales = (rng.uniform(0.1, 1.0, classes) * unit * size).astype(F32)
        case = _scores(logits, scales, 5)
        real = (logits.astype(np.float64).reshape(-1) - 5) * scales
        real = np.append(0.0, real) if classes == 1 else real  # that of the first class is 0
        np.testing.assert_allclose(case.after["scores"], _softmax(real), rtol=1e-4, atol=1e-7)
        cases.append(case)
    assert_kernels(cases)


def _cross_entropy(
    scores: Array, target: int, smoothing: float, seed: int, logits: int = 0
) -> Case:
    values = {"scores": scores.astype(F32), "target": np.array([target], np.int32)}
    shape = (1, logits or scores.size)
    attrs: dict[str, Attr] = {"error_shape": shape, "smoothing": smoothing, "stream": 3}
    op = Op(
        "cross_entropy_error",
        "loss",
        ("scores", "target"),
        ("e", "e_scale", "loss", "first_scale"),
        attrs,
    )
    made = [
        Tensor("e", shape, "int8"),
        Tensor("e_scale", (1,), "float32"),
        Tensor("first_scale", (1,), "float32"),
        Tensor("loss", (1,), "float32"),
    ]
    return _run(op, values, made, seed)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(smoothing: float) -> None:
    cases: list[Case] = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        classes = (2, 10, 77)[seed % 3]
        scores = _softmax(rng.normal(0, (0.1, 2.0, 9.0)[seed % 3], classes))
        case = _cross_entropy(scores, seed % classes, smoothing, seed)
        wanted = scores - smoothing / classes
        wanted[seed % classes] -= 1.0 - smoothing
        scale = float(case.after["first_scale"][0])
        assert np.max(np.abs(case.after["e"][0] * scale - wanted)) <= scale * 1.01
        loss = -np.log(max(scores[seed % classes], 1e-30))
        assert float(case.after["loss"][0]) == pytest.approx(loss, rel=1e-5, abs=1e-6)
        cases.append(case)
    certain = np.array([0.0, 1.0, 0.0])
    cases += [_cross_entropy(certain, 1, 0.0, 0), _cross_entropy(certain, 2, 0.0, 0)]
    assert not cases[-2].after["e"].any()
    assert_kernels(cases)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_binary_cross_entropy_has_the_error_of_its_one_logit(smoothing: float) -> None:
    cases: list[Case] = []
    for p, target in ((0.5, 0), (0.5, 1), (0.999, 0), (1e-6, 1), (0.3, 1)):
        case = _cross_entropy(np.array([1 - p, p]), target, smoothing, 7, logits=1)
        wanted = p - (target * (1 - smoothing) + smoothing / 2)
        scale = float(case.after["first_scale"][0])
        assert case.after["e"].tolist() == [[int(127 * np.sign(wanted))]]
        assert 127 * scale == pytest.approx(abs(wanted), rel=1e-5)
        loss = -np.log(p if target else 1 - p)
        assert float(case.after["loss"][0]) == pytest.approx(loss, rel=1e-5)
        cases.append(case)
    assert_kernels(cases)


def test_mean_squared_error() -> None:
    quant = Quant((0.05,), 3)
    cases: list[Case] = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = rng.integers(-128, 128, (1, 40), dtype=np.int8)
        target = rng.integers(-128, 128, 40) if seed % 2 else y[0] + rng.integers(-2, 3, 40)
        t = np.clip(target, -128, 127).astype(np.int8).reshape(1, 40)
        op = Op(
            "mean_squared_error",
            "loss",
            ("y", "t"),
            ("e", "e_scale", "loss", "first_scale"),
            {"stream": 3},
        )
        made = [
            Tensor("y", (1, 40), "int8", quant=quant),
            Tensor("e", (1, 40), "int8"),
            Tensor("e_scale", (1,), "float32"),
            Tensor("first_scale", (1,), "float32"),
            Tensor("loss", (1,), "float32"),
        ]
        case = _run(op, {"y": y, "t": t}, made, seed)
        difference = 0.05 * (y.astype(float) - t)
        scale = float(case.after["first_scale"][0])
        assert np.max(np.abs(case.after["e"] * scale - 2 * difference / 40)) <= scale * 1.01
        assert float(case.after["loss"][0]) == pytest.approx(np.mean(difference**2), rel=1e-5)
        cases.append(case)
    assert_kernels(cases)
