"""Offsets of buffers in the arena, by greedy orders.

In: buffers (time segments and bytes). Out: a layout with its peak and the lower bound. The result
is the same on every run: nothing depends on clocks. Must not know graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tinytrain.memory.live_ranges import ALIGNMENT, Buffer, align, live_bytes

Heights = npt.NDArray[np.int64]

REPAIRS = 60  # attempts to mend the best greedy order


@dataclass(frozen=True)
class Layout:
    """Where buffers lie.

    Attributes:
        offsets: byte offset of each buffer, in the order given.
        arena_bytes: end of the highest buffer, aligned.
        lower_bound_bytes: largest sum of live bytes; no layout can be smaller.
        proven_bound_bytes: best bound that was proven, at least the one above.
        method: the way this layout was found.
    """

    offsets: tuple[int, ...]
    arena_bytes: int
    lower_bound_bytes: int
    proven_bound_bytes: int
    method: str

    @property
    def proven(self) -> bool:
        """Whether no smaller layout exists."""
        return self.arena_bytes == self.proven_bound_bytes


@dataclass(frozen=True)
class Problem:
    """Buffers as a packing problem in units of the alignment.

    Attributes:
        heights: [buffer, section] units needed; only sections (times) that bind are kept.
        height: [buffer] the most that each ever needs.
        above: above[i][j] = units that buffer i needs while j lives, 0 where they never meet: if
            j lies above i, its offset is at least that of i plus above[i][j].
        neighbours: for each buffer the (j, above[i][j], above[j][i]) that it meets.
        bound: largest sum of a section.
    """

    heights: Heights
    height: Heights
    above: Heights
    neighbours: tuple[tuple[tuple[int, int, int], ...], ...]
    bound: int

    @property
    def count(self) -> int:
        """Number of buffers."""
        return int(self.heights.shape[0])


def problem(buffers: Sequence[Buffer], alignment: int = ALIGNMENT) -> Problem:
    """The packing problem of some buffers."""
    steps = max((b.end for b in buffers), default=1)
    heights = np.zeros((len(buffers), steps), dtype=np.int64)
    for row, buffer in zip(heights, buffers, strict=True):
        for segment in buffer.segments:
            row[segment.start : segment.end] = align(segment.nbytes, alignment) // alignment
    return packing(heights[:, _binding_sections(heights)])


def packing(heights: Heights) -> Problem:
    """The packing problem of a table of heights [buffer, section]."""
    count = heights.shape[0]
    alive = heights > 0
    above = np.zeros((count, count), dtype=np.int64)
    for i, row in enumerate(heights):
        above[i] = np.where(alive, row, 0).max(axis=1, initial=0)
        above[i, i] = 0
    neighbours = tuple(
        tuple((int(j), int(above[i, j]), int(above[j, i])) for j in np.flatnonzero(above[i]))
        for i in range(count)
    )
    bound = int(heights.sum(axis=0).max(initial=0))
    return Problem(heights, heights.max(axis=1, initial=0), above, neighbours, bound)


def _binding_sections(heights: Heights) -> npt.NDArray[np.intp]:
    """Times that are not covered, buffer by buffer, by the time kept before or after them."""
    kept: list[int] = []
    for time in range(heights.shape[1]):
        column = heights[:, time]
        while kept and bool((heights[:, kept[-1]] <= column).all()):
            kept.pop()
        if not kept or not bool((column <= heights[:, kept[-1]]).all()):
            kept.append(time)
    return np.array(kept, dtype=np.intp)


def place(buffers: Sequence[Buffer], alignment: int = ALIGNMENT) -> Layout:
    """The best layout of several greedy orders, mended where it misses the lower bound."""
    puzzle = problem(buffers, alignment)
    best, method = _greedy(puzzle)
    if top(puzzle, best) > puzzle.bound:
        mended = _repair(puzzle, best)
        if top(puzzle, mended) < top(puzzle, best):
            best, method = mended, f"{method}, repaired"
    bound = max(live_bytes(buffers, max((b.end for b in buffers), default=1), alignment))
    return Layout(
        offsets=tuple(offset * alignment for offset in best),
        arena_bytes=top(puzzle, best) * alignment,
        lower_bound_bytes=bound,
        proven_bound_bytes=bound,
        method=method,
    )


def orders(puzzle: Problem) -> Iterable[tuple[str, list[int]]]:
    """Placing orders, the most promising first."""
    height = puzzle.height
    width = (puzzle.heights > 0).sum(axis=1)
    area = puzzle.heights.sum(axis=1)
    start = (puzzle.heights > 0).argmax(axis=1)
    load = np.where(puzzle.heights > 0, puzzle.heights.sum(axis=0), 0).max(axis=1, initial=0)
    keys: dict[str, Sequence[npt.NDArray[np.int64]]] = {
        "size": (-height, -width),
        "area": (-area, -height),
        "load, then size": (-load, -height, -width),
        "lifetime": (-width, -height),
        "load, then area": (-load, -area),
        "load, then lifetime": (-load, -width, -height),
        "start": (start, -height),
        "start, longest first": (start, -width, -height),
        "end": (-(start + width), -height),
    }
    for name, columns in keys.items():
        order = np.lexsort((np.arange(puzzle.count), *reversed(columns)))
        yield name, [int(i) for i in order]


def _greedy(puzzle: Problem) -> tuple[list[int], str]:
    best: list[int] = [0] * puzzle.count
    best_peak, method = -1, "nothing to place"
    if puzzle.count == 0:
        return best, method
    for name, order in orders(puzzle):
        for fit, choose in FITS:
            offsets = pack(puzzle, order, choose)
            peak = top(puzzle, offsets)
            if best_peak < 0 or peak < best_peak:
                best, best_peak, method = offsets, peak, f"{fit} by {name}"
            if peak == puzzle.bound:
                return best, method
    return best, method


Gap = tuple[int, int]  # lowest offset, highest offset (-1: no limit)


def _lowest(gaps: Iterable[Gap]) -> int:
    return next(iter(gaps))[0]


def _tightest(gaps: Iterable[Gap]) -> int:
    """The offset in the gap with the least left over; above everything if no gap fits."""
    slack, offset = -1, 0
    for low, high in gaps:
        if high < 0:
            return low if slack < 0 else offset
        if slack < 0 or high - low < slack:
            slack, offset = high - low, low
    return offset


FITS = (("first fit", _lowest), ("best fit", _tightest))


def pack(
    puzzle: Problem,
    order: Sequence[int],
    choose: Callable[[Iterable[Gap]], int] = _lowest,
    fixed: Mapping[int, int] | None = None,
) -> list[int]:
    """Offsets (in units) after placing the buffers one by one, in a given order.

    Args:
        fixed: offsets of buffers that lie already.
    """
    fixed = {} if fixed is None else fixed
    offsets = [fixed.get(i, -1) for i in range(puzzle.count)]
    for i in order:
        if i in fixed:
            continue
        blocked = [
            (offsets[j] - mine, offsets[j] + theirs)
            for j, mine, theirs in puzzle.neighbours[i]
            if offsets[j] >= 0
        ]
        blocked.sort()
        offsets[i] = choose(_gaps(blocked))
    return offsets


def _gaps(blocked: Sequence[tuple[int, int]]) -> Iterable[Gap]:
    """Where an offset may lie, given the sorted open intervals where it may not."""
    low = 0
    for start, end in blocked:
        if start >= low:
            yield low, start
        if end > low:
            low = end
    yield low, -1


def top(puzzle: Problem, offsets: Sequence[int]) -> int:
    """End of the highest buffer, in units."""
    tops = puzzle.height + np.array(offsets, dtype=np.int64)
    return int(tops.max(initial=0))


def _repair(puzzle: Problem, offsets: Sequence[int]) -> list[int]:
    """Place again and again, each time with the buffers that stuck out moved to the front."""
    height = puzzle.height
    best = list(offsets)
    best_peak = top(puzzle, best)
    order = sorted(range(puzzle.count), key=lambda i: (best[i], -int(height[i]), i))
    current = best
    for _ in range(REPAIRS):
        out = {i for i in order if current[i] + int(height[i]) > puzzle.bound}
        order = [i for i in order if i in out] + [i for i in order if i not in out]
        current = pack(puzzle, order)
        peak = top(puzzle, current)
        if peak < best_peak:
            best, best_peak = current, peak
        if best_peak == puzzle.bound:
            break
    return best


def settle(
    buffers: Sequence[Buffer],
    layout: Layout,
    preferred: Sequence[bool],
    alignment: int = ALIGNMENT,
) -> Layout:
    """A layout of the same size whose preferred buffers end lower, if an order gives one.

    Args:
        buffers: what was placed.
        layout: where.
        preferred: for each buffer whether it should lie low.
    """
    puzzle = problem(buffers, alignment)
    given = [offset // alignment for offset in layout.offsets]
    limit = layout.arena_bytes // alignment
    chosen = [i for i, low in enumerate(preferred) if low]

    def reach(offsets: Sequence[int]) -> int:
        return max((offsets[i] + int(puzzle.height[i]) for i in chosen), default=0)

    best = given
    by_offset = sorted(range(puzzle.count), key=lambda i: (given[i], i))
    for order in (by_offset, *(order for _, order in orders(puzzle))):
        low_first = sorted(order, key=lambda i: not preferred[i])
        offsets = pack(puzzle, low_first)
        if top(puzzle, offsets) <= limit and reach(offsets) < reach(best):
            best = offsets
    return replace(layout, offsets=tuple(offset * alignment for offset in best))
