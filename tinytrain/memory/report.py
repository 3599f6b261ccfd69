"""What a memory plan looks like over the schedule, and what holds its peak.

In: a plan. Out: data for the command line, charts and JSON. Must not know how it is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tinytrain.ir import Graph, Phase, Role
from tinytrain.memory.live_ranges import Buffer, align, live_bytes
from tinytrain.memory.plan import Plan

KINDS = ("input", "activation", "saved", "error", "scratch")


@dataclass(frozen=True)
class Piece:
    """A rectangle of the memory map: what one stretch of memory holds for some time.

    Attributes:
        names: the tensors (several are views of the same bytes), or the operator whose scratch
            it is.
        kind: "input", "activation" (forward only), "saved" (made forward, used later), "error"
            (made later) or "scratch".
        start, end: half-open interval of time.
        offset_bytes, nbytes: where, and how large.
        made_by, last_used_by: operators; "" for the caller.
    """

    names: tuple[str, ...]
    kind: str
    start: int
    end: int
    offset_bytes: int
    nbytes: int
    made_by: str
    last_used_by: str

    @property
    def name(self) -> str:
        """The names, in one string."""
        return " = ".join(self.names)


@dataclass(frozen=True)
class MemoryStep:
    """One operator of the schedule: bytes that are live while it runs, end of the highest."""

    op: str
    phase: Phase
    live_bytes: int
    top_bytes: int


@dataclass(frozen=True)
class Holder:
    """What is live at the peak, and by how much the peak would sink without it."""

    piece: Piece
    saving_bytes: int


@dataclass(frozen=True)
class MemoryMap:
    """The arena over a training step.

    Attributes:
        steps: one an operator.
        pieces: rectangles that do not overlap, by time, then address.
        peak: index of the first step with the most live bytes.
        holders: what is live there, largest saving first, then largest.
        frees_next: the pieces among them that end first.
        arena_bytes, lower_bound_bytes: as in the plan.
    """

    steps: tuple[MemoryStep, ...]
    pieces: tuple[Piece, ...]
    peak: int
    holders: tuple[Holder, ...]
    frees_next: tuple[Piece, ...]
    arena_bytes: int
    lower_bound_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "arena_bytes": self.arena_bytes,
            "lower_bound_bytes": self.lower_bound_bytes,
            "peak_op": self.steps[self.peak].op if self.steps else "",
            "steps": [asdict(s) | {"phase": s.phase.value} for s in self.steps],
            "peak": [asdict(h.piece) | {"saving_bytes": h.saving_bytes} for h in self.holders],
            "frees_next": [p.name for p in self.frees_next],
        }


def memory_map(plan: Plan) -> MemoryMap:
    """The memory map of a plan."""
    count = len(plan.graph.ops)
    live = live_bytes(plan.buffers, count)
    placed = list(zip(plan.buffers, plan.buffer_offsets, strict=True))
    uses = _Uses(plan.graph)
    pieces = [p for b, offset in placed for p in _pieces(plan, uses, b, offset)]
    tops = [0] * count
    for buffer, offset in placed:
        for segment in buffer.segments:
            for time in range(segment.start, min(segment.end, count)):
                tops[time] = max(tops[time], offset + segment.nbytes)
    steps = tuple(
        MemoryStep(op.name, op.phase, live[time], tops[time])
        for time, op in enumerate(plan.graph.ops)
    )
    peak = max(range(len(live)), key=lambda time: live[time])
    holders = [
        Holder(piece, _saving(live, buffer))
        for buffer, offset in placed
        for piece in _pieces(plan, uses, buffer, offset)
        if piece.start <= peak < piece.end
    ]
    holders.sort(key=lambda h: (-h.saving_bytes, -h.piece.nbytes, h.piece.offset_bytes))
    first_end = min((h.piece.end for h in holders), default=0)
    return MemoryMap(
        steps=steps,
        pieces=tuple(sorted(pieces, key=lambda p: (p.start, p.offset_bytes))),
        peak=peak,
        holders=tuple(holders),
        frees_next=tuple(h.piece for h in holders if h.piece.end == first_end),
        arena_bytes=plan.arena_bytes,
        lower_bound_bytes=plan.lower_bound_bytes,
    )


def _saving(live: tuple[int, ...], buffer: Buffer) -> int:
    """By how much the largest sum of live bytes sinks if a buffer goes."""
    without = list(live)
    for segment in buffer.segments:
        for time in range(segment.start, segment.end):
            without[time] -= align(segment.nbytes)
    return max(live) - max(without)


class _Uses:
    """When tensors are made and used."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made: dict[str, int] = {}
        self.last: dict[str, int] = {}
        for time, op in enumerate(graph.ops):
            for name in op.outputs:
                self.made.setdefault(name, time)
            for name in (*op.inputs, *op.outputs):
                self.last[name] = time

    def op(self, times: Mapping[str, int], name: str) -> str:
        """The operator at a tensor's time; "" if there is none."""
        return self.graph.ops[times[name]].name if name in times else ""

    def kind(self, names: tuple[str, ...]) -> str:
        """The kind of a piece that holds these tensors."""
        ops = self.graph.ops
        if self.graph[names[0]].role is Role.INPUT:
            return "input"
        if ops[self.made[names[0]]].phase is not Phase.FORWARD:
            return "error"
        late = any(ops[self.last[name]].phase is not Phase.FORWARD for name in names)
        return "saved" if late else "activation"


def _pieces(plan: Plan, uses: _Uses, buffer: Buffer, offset: int) -> list[Piece]:
    """A buffer, cut where a tensor is written over another one or less is needed."""
    if buffer.scratch:
        segment = buffer.segments[0]
        place = (segment.start, segment.end, offset, segment.nbytes)
        return [Piece((buffer.name,), "scratch", *place, buffer.name, buffer.name)]
    groups: list[list[str]] = []
    for name in buffer.tensors:
        if not groups or name in plan.in_place:
            groups.append([])
        groups[-1].append(name)
    cuts = {s.start for s in buffer.segments}
    starts = [buffer.start]
    for group in groups[1:]:
        time = uses.made[group[0]]
        # While the operator runs, the larger of the two tensors is there.
        starts.append(time + 1 if time + 1 in cuts else time)
    found: list[Piece] = []
    for names, start, end in zip(groups, starts, [*starts[1:], buffer.end], strict=True):
        nbytes = buffer.nbytes_at(start)
        if start < end:
            last = max(names, key=lambda name: uses.last.get(name, -1))
            found.append(
                Piece(
                    tuple(names),
                    uses.kind(tuple(names)),
                    start,
                    end,
                    offset,
                    nbytes,
                    uses.op(uses.made, names[0]),
                    uses.op(uses.last, last),
                )
            )
    return found
