"""Offsets by exhaustive search: finds the smallest arena, or proves how small it cannot be.

In: buffers, and a layout to start from. Out: the layout with the best bound proven in the time
given. Must not know graphs.

Every layout can be pushed down until each buffer lies on another one or on the floor, and can be
built from the lowest buffer to the highest. So the search places buffers by rising offset, each
as low as what is placed before allows, and gives a branch up where some section of time cannot
hold the rest of its buffers. The capacity is raised from the lower bound to the smallest value
that any given-up branch asked for; when a search ends without result that value is a proven bound.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tinytrain.memory.arena import FITS, Layout, Problem, orders, pack, place, problem, top
from tinytrain.memory.live_ranges import ALIGNMENT, Buffer

Vector = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NEVER = int(np.iinfo(np.int64).max // 4)
UNLIMITED = 1 << 62


@dataclass
class Effort:
    """What a search may still spend.

    Attributes:
        nodes: partial layouts to look at.
        end: when to stop, on the monotonic clock; None for never.
    """

    nodes: int
    end: float | None = None

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.nodes <= 0 or (self.end is not None and time.monotonic() > self.end)

    def half(self) -> Effort:
        """Half of what is left."""
        if self.end is None:
            return Effort(self.nodes // 2)
        now = time.monotonic()
        return Effort(self.nodes // 2, now + (self.end - now) / 2)


def solve_exact(
    buffers: Sequence[Buffer],
    *,
    time_limit_s: float | None = None,
    node_limit: int = UNLIMITED,
    alignment: int = ALIGNMENT,
    start: Layout | None = None,
) -> Layout:
    """The best layout found before the limit; `proven` says whether it is optimal.

    Args:
        buffers: what to place.
        time_limit_s: seconds; where it ends the search, the result depends on the machine's speed.
        node_limit: partial layouts to look at, a limit that does not depend on the machine.
        start: `place(buffers)`, where it is known already.
    """
    best = place(buffers, alignment) if start is None else start
    puzzle = problem(buffers, alignment)
    effort = Effort(node_limit)
    if time_limit_s is not None:
        effort.end = time.monotonic() + time_limit_s
    bound = best.proven_bound_bytes // alignment
    peak = best.arena_bytes // alignment
    while bound < peak and not effort.spent:
        # Half of what is left for the bound itself; what remains, for anything better.
        part = effort.half()
        given = part.nodes
        outcome = _solve(puzzle, bound, part)
        effort.nodes -= given - part.nodes
        if outcome.offsets is None and outcome.exhausted:
            bound = min(outcome.next_capacity, peak)
            continue
        if outcome.offsets is None:
            outcome = _solve(puzzle, (bound + peak - 1) // 2, effort)
        if outcome.offsets is None:
            break
        peak = top(puzzle, outcome.offsets)
        best = replace(
            best,
            offsets=tuple(o * alignment for o in outcome.offsets),
            arena_bytes=peak * alignment,
            method="exact search",
        )
    return replace(best, proven_bound_bytes=bound * alignment)


def _solve(puzzle: Problem, capacity: int, effort: Effort) -> _Outcome:
    """Offsets within a capacity: the fullest sections first, then with more and more others.

    Where the buffers of some sections do not fit, all of them do not. Where they fit, the others
    are mostly easy to put around them.
    """
    sections = np.argsort(-puzzle.heights.sum(axis=0), kind="stable")
    count = 1
    while True:
        rows, part = _restrict(puzzle, sections[:count])
        outcome = _search(part, capacity, effort)
        if outcome.offsets is None:
            return outcome
        fixed = dict(zip(rows, outcome.offsets, strict=True))
        for _, order in orders(puzzle):
            for _, fit in FITS:
                offsets = pack(puzzle, order, fit, fixed)
                if top(puzzle, offsets) <= capacity:
                    return replace(outcome, offsets=offsets)
        count = min(2 * count, len(sections))


def _restrict(puzzle: Problem, sections: npt.NDArray[np.intp]) -> tuple[list[int], Problem]:
    """The buffers that live in some of the sections, and the problem of these alone.

    Wherever they meet they keep apart, but the room is counted in these sections only.
    """
    heights = puzzle.heights[:, np.sort(sections)]
    rows = np.flatnonzero(heights.any(axis=1))
    part = replace(
        puzzle,
        heights=heights[rows],
        height=puzzle.height[rows],
        above=puzzle.above[np.ix_(rows, rows)],
        neighbours=(),
    )
    return [int(i) for i in rows], part


@dataclass(frozen=True)
class _Outcome:
    """Offsets that fit, or None; whether all was searched, and the capacity to try next."""

    offsets: list[int] | None
    exhausted: bool
    next_capacity: int


@dataclass
class _Node:
    """A partial layout."""

    lowest: Vector  # lowest offset each buffer could have
    floor: Vector  # end of what is placed, by section
    rest: Vector  # units to be placed, by section
    open: Mask  # buffers to be placed
    last: tuple[int, int]  # offset and index of the buffer placed last
    candidates: list[int]  # to be tried next, the best last


def _search(puzzle: Problem, capacity: int, effort: Effort) -> _Outcome:
    """Depth-first search for offsets within a capacity."""
    search = _Search(puzzle, capacity)
    stack = [search.root()]
    offsets = np.zeros(puzzle.count, dtype=np.int64)
    while stack:
        effort.nodes -= 1
        if effort.nodes % 64 == 0 and effort.spent:
            return _Outcome(None, False, capacity)
        node = stack[-1]
        if not node.candidates:
            stack.pop()
            continue
        chosen = node.candidates.pop()
        offsets[chosen] = node.lowest[chosen]
        child = search.child(node, chosen)
        if child is None:
            continue
        if not child.open.any():
            return _Outcome([int(o) for o in offsets], True, capacity)
        stack.append(child)
    return _Outcome(None, True, search.next_capacity)


class _Search:
    """The rules of the search at one capacity."""

    def __init__(self, puzzle: Problem, capacity: int) -> None:
        self.capacity = capacity
        self.next_capacity = NEVER
        self.heights = puzzle.heights
        self.above = puzzle.above
        self.alive = puzzle.heights > 0
        self.height = puzzle.height
        # Of two buffers at one offset the larger, more contended one is tried first.
        load = np.where(self.alive, puzzle.heights.sum(axis=0), 0).max(axis=1, initial=0)
        self.rank = np.empty(puzzle.count, dtype=np.int64)
        order = np.lexsort((self.height, self.alive.sum(axis=1), load))
        self.rank[order] = np.arange(puzzle.count)

    def root(self) -> _Node:
        """Nothing placed."""
        count, sections = self.heights.shape
        node = _Node(
            np.zeros(count, dtype=np.int64),
            np.zeros(sections, dtype=np.int64),
            self.heights.sum(axis=0),
            np.ones(count, dtype=np.bool_),
            (0, -1),
            [],
        )
        node.candidates = self._candidates(node)
        return node

    def child(self, node: _Node, chosen: int) -> _Node | None:
        """The node after placing a buffer; None if the rest cannot fit."""
        offset = int(node.lowest[chosen])
        row = self.heights[chosen]
        lifted = self.above[chosen]
        is_open = node.open.copy()
        is_open[chosen] = False
        child = _Node(
            np.maximum(node.lowest, np.where(lifted > 0, offset + lifted, 0)),
            np.where(row > 0, offset + row, node.floor),
            node.rest - row,
            is_open,
            (offset, chosen),
            [],
        )
        if not is_open.any():
            return child
        if not self._fits(child):
            return None
        child.candidates = self._candidates(child)
        return child

    def _fits(self, node: _Node) -> bool:
        busy = node.rest > 0
        base = np.maximum(node.floor, node.last[0])
        need = int(np.where(busy, base + node.rest, 0).max(initial=0))
        if need <= self.capacity:
            # The lowest of the rest of a section may have to lie higher than its floor.
            indices = np.flatnonzero(node.open)
            lowest = np.maximum(node.lowest[indices], node.last[0])
            first = np.where(self.alive[indices], lowest[:, None], NEVER).min(axis=0)
            need = int(np.where(busy, first + node.rest, 0).max(initial=0))
            need = max(need, int((lowest + self.height[indices]).max(initial=0)))
        if need > self.capacity:
            self.next_capacity = min(self.next_capacity, need)
            return False
        return True

    def _candidates(self, node: _Node) -> list[int]:
        """Buffers that may come next, the best last.

        In the layout with the least sum of offsets none leaves room for a whole other one, not
        yet placed, beneath it.
        """
        indices = np.flatnonzero(node.open)
        lowest = node.lowest[indices]
        offset, last = node.last
        later = (lowest > offset) | ((lowest == offset) & (indices > last))
        reach = int((lowest + self.height[indices]).min())
        found = indices[later & (lowest < reach)]
        order = np.lexsort((self.rank[found], -node.lowest[found]))
        return [int(i) for i in found[order]]
