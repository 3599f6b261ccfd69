from __future__ import annotations

import numpy as np

from tests.support.backward import assert_similar, random_error, run_op
from tests.support.ckernel import Case, assert_kernels
from tests.support.tflite_writer import Array
from tinytrain.ir import Graph, Op, Tensor
from tinytrain.ops.base import Step

SHAPE = (1, 6, 5, 4)
ATTRS = {"gain_a": 0.25, "gain_b": 3.0, "stream": 4}
NAMES = ("a", "scale_a", "b", "scale_b", "range")


def _sum(scale_a: float, scale_b: float, amax: int, step: Step) -> Case:
    rng = np.random.default_rng(amax)
    values: dict[str, Array] = {
        "a": random_error(rng, SHAPE),
        "scale_a": np.array([scale_a], np.float32),
        "b": random_error(rng, SHAPE),
        "scale_b": np.array([scale_b], np.float32),
        # an accumulator unit is the larger real scale in Q14
        "range": np.array([amax * max(scale_a * 0.25, scale_b * 3.0) / (1 << 14)], np.float32),
    }
    op = Op("add_errors", "sum", NAMES, ("sum", "sum_scale", "range"), ATTRS)
    tensors = {n: Tensor(n, v.shape, v.dtype.name) for n, v in values.items()}
    tensors["sum"] = Tensor("sum", SHAPE, "int8")
    tensors["sum_scale"] = Tensor("sum_scale", (1,), "float32")
    graph = Graph("errors", tensors, (op,), (), ())
    before, after = run_op(graph, op, values, step)
    return Case(op, graph, before, after, step)


def test_the_sum_of_unequal_scales() -> None:
    cases: list[Case] = []
    for scale_a, scale_b in [(0.1, 0.1), (1.0, 0.02), (1e-6, 1.0), (0.0, 0.3), (0.7, 0.0)]:
        for amax in (1 << 21, 1 << 23):
            case = _sum(scale_a, scale_b, amax, Step(1, amax))
            cases.append(case)
            real = case.after["sum"] * float(case.after["sum_scale"][0])
            a, b = case.before["a"].astype(float), case.before["b"].astype(float)
            if amax == 1 << 21:
                assert_similar(real, a * scale_a * 0.25 + b * scale_b * 3.0, 0.98)
    assert_kernels(cases)


def test_no_error_at_all() -> None:
    case = _sum(0.0, 0.0, 1 << 21, Step(apply=False))
    assert case.after["sum_scale"][0] == 0.0
    assert_kernels([case])
