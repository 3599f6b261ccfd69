"""Offsets: greedy orders and exhaustive search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytrain.memory.arena import Layout, pack, place, problem, top
from tinytrain.memory.exact import solve_exact
from tinytrain.memory.live_ranges import Buffer, Segment, live_bytes


@st.composite
def buffer_lists(draw: st.DrawFn, most: int, steps: int = 12) -> list[Buffer]:
    """Buffers with shrinking needs at random times."""
    found = []
    for i in range(draw(st.integers(1, most))):
        time = draw(st.integers(0, steps - 1))
        nbytes = draw(st.integers(1, 60))
        segments = []
        for _ in range(draw(st.integers(1, 3))):
            end = min(steps, time + draw(st.integers(1, 5)))
            segments.append(Segment(time, end, nbytes))
            time, nbytes = end, nbytes - draw(st.integers(1, 30))
            if time >= steps or nbytes < 1:
                break
        found.append(Buffer(f"b{i}", (f"b{i}",), tuple(segments)))
    return found


def check(buffers: Sequence[Buffer], layout: Layout, alignment: int = 4) -> None:
    """Aligned, inside, and apart at every time."""
    assert layout.lower_bound_bytes <= layout.proven_bound_bytes <= layout.arena_bytes
    for time in range(max(b.end for b in buffers)):
        places = sorted(
            (offset, offset + b.nbytes_at(time))
            for b, offset in zip(buffers, layout.offsets, strict=True)
            if b.nbytes_at(time)
        )
        assert all(start % alignment == 0 for start, _ in places)
        assert all(end <= layout.arena_bytes for _, end in places)
        assert all(a[1] <= b[0] for a, b in zip(places, places[1:], strict=False))


@settings(max_examples=200, deadline=None)
@given(buffer_lists(30), st.sampled_from([1, 4, 16]))
def test_greedy_layouts_are_legal(buffers: list[Buffer], alignment: int) -> None:
    layout = place(buffers, alignment)
    check(buffers, layout, alignment)
    assert layout.lower_bound_bytes == max(live_bytes(buffers, 12, alignment))
    assert layout == place(buffers, alignment)


@settings(max_examples=60, deadline=None)
@given(buffer_lists(24))
def test_exact_layouts_are_legal_and_no_worse(buffers: list[Buffer]) -> None:
    greedy = place(buffers)
    exact = solve_exact(buffers, node_limit=1000, start=greedy)
    check(buffers, exact)
    assert exact.arena_bytes <= greedy.arena_bytes
    assert exact == solve_exact(buffers, node_limit=1000)


@settings(max_examples=150, deadline=None)
@given(buffer_lists(6, steps=6))
def test_exact_search_finds_the_optimum(buffers: list[Buffer]) -> None:
    puzzle = problem(buffers)
    # Pushed down, any layout comes out of first fit in the order of its offsets.
    optimum = min(top(puzzle, pack(puzzle, order)) for order in permutations(range(len(buffers))))
    exact = solve_exact(buffers)
    assert exact.proven
    assert exact.arena_bytes == 4 * optimum


def lifetimes(*rows: tuple[int, int, int]) -> list[Buffer]:
    """Buffers (start, end, bytes)."""
    return [Buffer(f"b{i}", (f"b{i}",), (Segment(*row),)) for i, row in enumerate(rows)]


def test_a_bound_above_the_live_bytes_is_proven() -> None:
    # Never more than 20 bytes are live, but trying all orders shows that no offsets need less
    # than 24.
    buffers = lifetimes(
        (0, 2, 12), (6, 8, 12), (5, 7, 8), (2, 5, 4), (0, 4, 8), (4, 6, 4), (7, 8, 4), (3, 6, 8)
    )
    exact = solve_exact(buffers)
    check(buffers, exact)
    assert exact.lower_bound_bytes == 20
    assert (exact.arena_bytes, exact.proven_bound_bytes, exact.proven) == (24, 24, True)


def test_a_search_without_effort_returns_its_start() -> None:
    buffers = lifetimes((0, 2, 4), (1, 3, 8))
    start = place(buffers)
    worse = Layout((0, 40), 48, start.lower_bound_bytes, start.lower_bound_bytes, "by hand")
    assert solve_exact(buffers, node_limit=0, start=worse) == worse
    assert solve_exact(buffers, time_limit_s=0.0, start=worse) == worse
    assert solve_exact(buffers, start=worse).arena_bytes == start.arena_bytes


@pytest.mark.parametrize("limit", [None, 5.0])
def test_nothing_to_place(limit: float | None) -> None:
    layout = solve_exact([], time_limit_s=limit)
    assert (layout.offsets, layout.arena_bytes, layout.proven) == ((), 0, True)
