"""Row by row through a chain of layers: how many rows each line buffer holds.

A chain runs the last layer that has the rows it needs, a batch of rows at a time, until the last
layer is done; so no row is made before it is needed, and none twice. What is between two layers is
a line buffer: rows that are still needed move to its start when it is full. `tt_row_chain.c` does
the same; here the schedule is played once at compile time. Must not know tensors or kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

DONE = 1 << 30


@dataclass(frozen=True)
class Source:
    """Rows that a stage reads: of an earlier stage, or of an operand that is whole in memory."""

    index: int
    is_stage: bool


@dataclass(frozen=True)
class Stage:
    """One layer of a chain.

    Attributes:
        sources: what it reads; each has `in_rows` rows.
        rows, row_bytes: of its output.
        in_rows, in_row_bytes: of each source.
        stride, pad, reach: row r reads input rows from r * stride - pad, `reach` of them.
        elementwise: each byte of a row depends on the bytes at its place alone, and is written
            after they are read.
    """

    sources: tuple[Source, ...]
    rows: int
    row_bytes: int
    in_rows: int
    in_row_bytes: int
    stride: int = 1
    pad: int = 0
    reach: int = 1
    elementwise: bool = False

    def window(self, row: int) -> tuple[int, int]:
        """Half-open interval of the input rows that an output row reads."""
        top = row * self.stride - self.pad
        first = min(max(0, top), self.in_rows)
        return first, max(first, min(self.in_rows, top + self.reach))

    def needs_from(self, row: int) -> int:
        """First input row that output row `row` or a later one reads."""
        return self.window(row)[0] if row < self.rows else DONE


@dataclass(frozen=True)
class RowPlan:
    """What a chain needs.

    Attributes:
        capacities: rows of each stage's line buffer; the last stage has none (0).
        in_place: operands over which the output may be written, at their start.
    """

    capacities: tuple[int, ...]
    in_place: frozenset[int]


@lru_cache(maxsize=4096)
def plan_rows(stages: tuple[Stage, ...], batch: int = 1) -> RowPlan:
    """Play the schedule of a chain of which each layer makes `batch` rows at a time."""
    last = len(stages) - 1
    done = [0] * len(stages)
    capacity = [0] * len(stages)
    spoilt: set[int] = set()
    while done[last] < stages[last].rows:
        current = _next(stages, done, batch)
        count = min(batch, stages[current].rows - done[current])
        if current < last:
            kept = min(_needed(stages, done, Source(current, True)), done[current])
            capacity[current] = max(capacity[current], done[current] + count - kept)
        else:
            spoilt |= _spoilt(stages, done, count)
        done[current] += count
    operands = {s.index for stage in stages for s in stage.sources if not s.is_stage}
    return RowPlan(tuple(capacity), frozenset(operands - spoilt))


def _next(stages: Sequence[Stage], done: Sequence[int], batch: int) -> int:
    """The last stage that can run."""
    for index in reversed(range(len(stages))):
        stage = stages[index]
        if done[index] < stage.rows:
            end = stage.window(min(done[index] + batch, stage.rows) - 1)[1]
            if all(done[s.index] >= end for s in stage.sources if s.is_stage):
                return index
    raise AssertionError("a chain of layers that waits for itself")


def _needed(stages: Sequence[Stage], done: Sequence[int], source: Source) -> int:
    """First row of a source that is needed from now on."""
    return min(
        stage.needs_from(done[index])
        for index, stage in enumerate(stages)
        if source in stage.sources
    )


def _spoilt(stages: Sequence[Stage], done: Sequence[int], count: int) -> set[int]:
    """Operands of which the next rows of the output would overwrite what is still needed."""
    last = stages[-1]
    end = (done[-1] + count) * last.row_bytes
    found: set[int] = set()
    for index, stage in enumerate(stages):
        for source in stage.sources:
            if source.is_stage:
                continue
            first = stage.needs_from(done[index])
            own = stage is last and last.elementwise and last.in_row_bytes == last.row_bytes
            if own:
                first = stage.needs_from(done[index] + count)
            if first < DONE and end > first * stage.in_row_bytes:
                found.add(source.index)
    return found
