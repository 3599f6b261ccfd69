"""Orders: what may move, what may not, and that it helps."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.random_plans import GraphBuilder, random_training_graph
from tinytrain.errors import InternalError
from tinytrain.ir import Graph, Phase, Role
from tinytrain.memory.live_ranges import live_bytes, live_ranges
from tinytrain.memory.schedule import dependencies, reorder
from tinytrain.memory.verifier import verify_order

B = Phase.BACKWARD


def peak(graph: Graph) -> int:
    return max(live_bytes(live_ranges(graph).buffers, len(graph.ops)))


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


def test_dependencies_of_data_and_of_state() -> None:
    builder = GraphBuilder()
    builder.tensor("w", 4, Role.STATE)
    builder.tensor("a", 4)
    builder.tensor("b", 4)
    builder.op("plain", ("w",), ("a",))  # 0
    builder.op("plain", ("a", "w"), ("b",), B)  # 1 reads the old w
    builder.op("plain", ("a", "w"), ("w",), B)  # 2 after all who read the old w
    builder.op("plain", ("w", "b"), (), B)  # 3 reads the new w
    builder.op("plain", ("w",), ("w",), B)  # 4 after the readers of the new w
    assert dependencies(builder.ops) == [0, 0b1, 0b11, 0b110, 0b1100]


def late_updates() -> Graph:
    """Two saved activations whose updates are written down after all errors."""
    builder = GraphBuilder()
    builder.tensor("x", 100, Role.INPUT)
    for i in (1, 2, 3):
        builder.tensor(f"w{i}", 8, Role.STATE)
        builder.tensor(f"a{i}", 1000)
        builder.op("plain", ("x" if i == 1 else f"a{i - 1}", f"w{i}"), (f"a{i}",))
    for i, source in ((3, "a3"), (2, "e3"), (1, "e2")):
        builder.tensor(f"e{i}", 1000)
        builder.op("plain", (source, f"w{i}"), (f"e{i}",), B)
    for i in (3, 2, 1):
        saved = "x" if i == 1 else f"a{i - 1}"
        builder.op("plain", (saved, f"e{i}", f"w{i}"), (f"w{i}",), B)
    return builder.graph(["a3"])


def test_updates_move_to_where_they_free_memory() -> None:
    given_order = late_updates()
    moved = reorder(given_order)
    verify_order(given_order, moved)
    assert peak(given_order) > peak(moved)
    # Not before the operator that still reads the old weights.
    order = names(moved)
    for reader, writer in (("plain_3", "plain_6"), ("plain_4", "plain_7"), ("plain_5", "plain_8")):
        assert order.index(reader) < order.index(writer)


def test_forward_branches_move_too() -> None:
    builder = GraphBuilder()
    builder.tensor("x", 10, Role.INPUT)
    for i in range(4):  # all wide ends first, then all narrow ones
        builder.tensor(f"wide{i}", 1000)
        builder.op("plain", ("x",), (f"wide{i}",))
    for i in range(4):
        builder.tensor(f"narrow{i}", 10)
        builder.op("plain", (f"wide{i}",), (f"narrow{i}",))
    builder.tensor("y", 40)
    builder.op("concat", tuple(f"narrow{i}" for i in range(4)), ("y",))
    graph = builder.graph(["y"])
    assert peak(graph) > 4000
    assert peak(reorder(graph)) < 1100


def test_the_given_order_stays_where_none_is_better() -> None:
    builder = GraphBuilder()
    builder.tensor("x", 10, Role.INPUT)
    builder.tensor("y", 10)
    builder.op("plain", ("x",), ("y",))
    builder.op("plain", ("y",), (), B)
    graph = builder.graph(["y"])
    assert reorder(graph) is graph


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, 8, 48]))
def test_random_graphs_keep_their_meaning(seed: int, beam: int) -> None:
    graph = random_training_graph(seed)
    moved = reorder(graph, beam=beam)
    verify_order(graph, moved)
    assert peak(moved) <= peak(graph)
    assert names(reorder(graph, beam=beam)) == names(moved)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_from_any_legal_order_the_meaning_stays(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_training_graph(rng.randrange(50))
    needs = dependencies(graph.ops)
    order: list[int] = []
    done = 0
    for phase in Phase:
        waiting = [i for i, op in enumerate(graph.ops) if op.phase is phase]
        while waiting:
            ready = [i for i in waiting if not needs[i] & ~done]
            chosen = rng.choice(ready)
            waiting.remove(chosen)
            order.append(chosen)
            done |= 1 << chosen
    shuffled = replace(graph, ops=tuple(graph.ops[i] for i in order))
    verify_order(graph, shuffled)
    moved = reorder(shuffled)
    verify_order(graph, moved)
    assert peak(moved) <= peak(shuffled)


def test_orders_with_another_meaning_are_refused() -> None:
    graph = late_updates()
    swapped = list(graph.ops)
    swapped[3], swapped[6] = swapped[6], swapped[3]  # the update before the input error
    with pytest.raises(InternalError, match="w3 was made by none, now by plain_6"):
        verify_order(graph, replace(graph, ops=tuple(swapped)))
    with pytest.raises(InternalError, match="other operators"):
        verify_order(graph, replace(graph, ops=graph.ops[:-1]))
    with pytest.raises(InternalError, match="phases are mixed"):
        verify_order(graph, replace(graph, ops=(*graph.ops[1:], graph.ops[0])))


def test_two_writers_may_not_swap() -> None:
    builder = GraphBuilder()
    builder.tensor("w", 4, Role.STATE)
    builder.op("plain", (), ("w",), B)
    builder.op("plain", (), ("w",), B)
    graph = builder.graph([])
    with pytest.raises(InternalError):
        verify_order(graph, replace(graph, ops=graph.ops[::-1]))
