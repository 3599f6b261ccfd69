"""Whole plans: legal, tight, and the same every time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.random_plans import GraphBuilder, measure, random_training_graph
from tinytrain.ir import Phase, Role
from tinytrain.memory import plan
from tinytrain.memory.verifier import verify_plan


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100_000), st.booleans())
def test_random_plans_are_legal(seed: int, reorder: bool) -> None:
    graph = random_training_graph(seed)
    made = plan(graph, reorder=reorder)
    verify_plan(made.graph, made.offsets, made.scratch_offsets, made.arena_bytes)
    assert set(made.offsets) == {n for n, t in graph.tensors.items() if t.in_arena}
    assert all(offset % 4 == 0 for offset in made.offsets.values())
    assert made.lower_bound_bytes <= made.proven_bound_bytes <= made.arena_bytes
    assert made.gap_bytes == 0 or not made.proven
    assert 0 < made.inference_arena_bytes <= made.arena_bytes
    if not reorder:
        assert made.graph is graph


def test_plans_are_tight() -> None:
    ratios = [result.ratio for result in measure(40, 0.0)]
    assert min(ratios) >= 1.0
    assert sum(ratios) / len(ratios) <= 1.005


def test_plans_are_deterministic() -> None:
    for seed in (143, 30):
        first, second = (plan(random_training_graph(seed)) for _ in range(2))
        assert [op.name for op in first.graph.ops] == [op.name for op in second.graph.ops]
        assert (first.offsets, first.scratch_offsets) == (second.offsets, second.scratch_offsets)
        assert first.method == second.method


def test_the_forward_part_alone_needs_only_its_share() -> None:
    builder = GraphBuilder()
    builder.tensor("x", 16, Role.INPUT)
    builder.tensor("y", 16)
    builder.tensor("e", 4000)
    builder.op("plain", ("x",), ("y",))
    builder.op("plain", ("y",), ("e",), Phase.BACKWARD)
    made = plan(builder.graph(["y"]))
    assert made.inference_arena_bytes < made.arena_bytes
    forward = [op for op in made.graph.ops if op.phase is Phase.FORWARD]
    used = {n for op in forward for n in (*op.inputs, *op.outputs)}
    tops = [made.offsets[n] + made.graph[n].nbytes for n in used]
    assert max(tops) <= made.inference_arena_bytes


def test_a_graph_without_operators() -> None:
    builder = GraphBuilder()
    builder.tensor("x", 16, Role.INPUT)
    made = plan(builder.graph(["x"]))
    assert (made.arena_bytes, made.offsets["x"]) == (16, 0)


def test_a_time_limit_does_no_harm() -> None:
    graph = random_training_graph(143)
    assert plan(graph, time_limit_s=1.0).arena_bytes <= plan(graph).arena_bytes
