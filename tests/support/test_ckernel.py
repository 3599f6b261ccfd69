"""The kernel harness finds wrong bytes and writes outside of tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support import ckernel
from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import forward_cases, graph_of
from tinytrain.ir import Tensor


def _case() -> Case:
    graph = graph_of(lambda b, x: b.relu(x, out_scale=0.1), (1, 40))
    return forward_cases(graph, np.arange(40, dtype=np.int8).reshape(1, 40))[0]


def test_agreement_passes() -> None:
    assert_kernels([_case()])


def test_one_wrong_value_fails() -> None:
    case = _case()
    (name,) = case.op.outputs
    wrong = case.after[name].copy()
    wrong[0, 7] += 1
    with pytest.raises(AssertionError, match="1 of 40 differ"):
        assert_kernels([replace(case, after={name: wrong})])


@pytest.mark.parametrize("sanitize", [False, True])
def test_a_write_behind_a_tensor_fails(sanitize: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = _case()
    (name,) = case.op.outputs
    call = case.call
    short = case.graph.with_ops(case.graph.ops, [Tensor(name, (1, 39), "int8")])
    cut = replace(case, graph=short, after={name: case.after[name][:, :39]})
    monkeypatch.setattr(Case, "call", property(lambda self: call))
    with pytest.raises(AssertionError, match=("overflow" if sanitize else "guard bytes")):
        ckernel._check([cut], sanitize=sanitize)
