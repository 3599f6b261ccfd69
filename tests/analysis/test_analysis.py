"""Invariants, cost and support of graphs made by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from tests.reader.models import every_operator
from tinytrain.analysis import graph_cost, summarize, support_rows, supported_page, verify
from tinytrain.analysis.support import supported_operators
from tinytrain.errors import InternalError
from tinytrain.ir import Attr, Graph, Op, Phase, Role, Tensor
from tinytrain.numeric.quantize import Quant
from tinytrain.reader import read

Q = Quant((0.1,), 0)


def layer() -> Graph:
    """Two fully connected layers, 8 -> 4 -> 2."""

    def const(name: str, shape: tuple[int, ...], dtype: str) -> Tensor:
        return Tensor(name, shape, dtype, Role.CONST, Q, np.ones(shape, dtype))

    tensors = [
        Tensor("x", (1, 8), "int8", Role.INPUT, Q),
        const("w", (4, 8), "int8"),
        const("b", (4,), "int32"),
        Tensor("h", (1, 4), "int8", quant=Q),
        const("v", (2, 4), "int8"),
        Tensor("y", (1, 2), "int8", quant=Q),
    ]
    attrs: dict[str, Attr] = {"activation": "NONE", "keep_num_dims": False}
    ops = (
        Op("fully_connected", "first", ("x", "w", "b"), ("h",), attrs),
        Op("fully_connected", "second", ("h", "v"), ("y",), attrs),
    )
    return Graph("g", {t.name: t for t in tensors}, ops, ("x",), ("y",))


def _with(graph: Graph, key: str, **changes: object) -> Graph:
    changed = dataclasses.replace(graph[key], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(graph, tensors={**graph.tensors, key: changed})


def _ops(graph: Graph, *ops: Op) -> Graph:
    return dataclasses.replace(graph, ops=ops)


def test_sound_graphs_pass() -> None:
    verify(layer())
    verify(read(every_operator()))


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda g: _ops(g, g.ops[1], g.ops[0]), "undefined-tensor"),
        (lambda g: _ops(g, g.ops[0]), "undefined-tensor"),
        (lambda g: _ops(g, g.ops[0], g.ops[1], g.ops[1]), "duplicate-op"),
        (
            lambda g: _ops(g, *g.ops, dataclasses.replace(g.ops[0], name="again")),
            "not-ssa",
        ),
        (lambda g: _with(g, "y", shape=(1, 3)), "bad-shape"),
        (lambda g: _with(g, "y", shape=(1, -2)), "bad-shape"),
        (lambda g: _with(g, "h", dtype="int7"), "bad-dtype"),
        (lambda g: _with(g, "w", data=None), "no-data"),
        (lambda g: _with(g, "w", data=np.ones((8, 4), np.int8)), "bad-data"),
        (lambda g: _with(g, "w", data=np.ones((4, 8), np.int16)), "bad-data"),
        (lambda g: _with(g, "h", data=np.ones((1, 4), np.int8)), "bad-role"),
        (lambda g: _with(g, "w", quant=Quant((0.1, 0.2), 0, 0)), "bad-scale"),
        (lambda g: _with(g, "w", quant=Quant((0.0,))), "bad-scale"),
        (lambda g: _with(g, "w", quant=Quant((float("nan"),))), "bad-scale"),
        (lambda g: _with(g, "x", quant=None), "no-quantization"),
        (lambda g: _with(g, "x", role=Role.STATE), "bad-role"),
        (lambda g: _with(g, "h", role=Role.STATE), "bad-state"),
        (lambda g: _with(g, "w", name="other"), "bad-name"),
        (lambda g: dataclasses.replace(g, outputs=("nothing",)), "unknown-tensor"),
        (
            lambda g: _ops(g, dataclasses.replace(g.ops[0], inputs=("x", "?")), g.ops[1]),
            "unknown-tensor",
        ),
        (lambda g: _ops(g, dataclasses.replace(g.ops[0], inputs=("x",)), g.ops[1]), "bad-operands"),
        (lambda g: _ops(g, dataclasses.replace(g.ops[0], kind="?"), g.ops[1]), "unknown-op"),
    ],
)
def test_each_invariant(damage: Callable[[Graph], Graph], code: str) -> None:
    with pytest.raises(InternalError) as caught:
        verify(damage(layer()))
    assert caught.value.code == code


def test_cost() -> None:
    cost = graph_cost(layer())
    assert [op.macs for op in cost.ops] == [32, 8]
    assert [op.weight_bytes for op in cost.ops] == [32 + 16, 8]
    assert [op.activation_bytes for op in cost.ops] == [4, 2]
    assert cost.macs() == cost.macs(Phase.FORWARD) == 40
    assert cost.macs(Phase.BACKWARD) == 0
    assert cost.const_bytes == 56
    assert cost.activation_bytes == 8 + 4 + 2


def test_shared_weights_count_once() -> None:
    graph = layer()
    second = dataclasses.replace(graph.ops[1], name="third", outputs=("z",))
    z = dataclasses.replace(graph["y"], name="z")
    graph = graph.with_ops((*graph.ops, second), (z,))
    assert graph_cost(graph).const_bytes == 56


def test_summary() -> None:
    summary = summarize(layer())
    assert summary.macs == 40
    assert summary.parameters == 32 + 4 + 8
    assert summary.largest_activation_bytes == 8
    assert summary.rows[0].operator == "FULLY_CONNECTED"
    assert summary.rows[0].output_shape == (1, 4)
    assert summary.rows[0].quantization == "0.1, weights 0.1"
    assert summary.as_dict()["inputs"][0]["scale"] == 0.1


def test_support_rows() -> None:
    graph = layer()
    assert all(row.supported for row in support_rows(graph))
    bad = dataclasses.replace(graph.ops[1], attrs={**graph.ops[1].attrs, "activation": "TANH"})
    rows = support_rows(_ops(graph, graph.ops[0], bad))
    assert [row.supported for row in rows] == [True, False]
    assert rows[1].index == 1 and "TANH" in rows[1].reason


def test_supported_page_lists_the_registry() -> None:
    page = supported_page()
    for item in supported_operators():
        assert f"## {item.operator}" in page
        assert item.rules in page
    assert {"CONV_2D", "SOFTMAX", "QUANTIZE"} <= {item.operator for item in supported_operators()}
