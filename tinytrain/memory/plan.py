"""The memory plan of a training step: order, arena offsets, state layout, and how good it is.

In: a training graph. Out: a verified `Plan`. Must not know generated code or boards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tinytrain.ir import Graph, Phase, Tensor
from tinytrain.memory.arena import Layout, place, settle
from tinytrain.memory.exact import solve_exact
from tinytrain.memory.live_ranges import (
    ALIGNMENT,
    Buffer,
    LiveRanges,
    align,
    live_bytes,
    live_ranges,
    scratch_bytes,
)
from tinytrain.memory.schedule import reorder as reorder_graph
from tinytrain.memory.sharing import sharing
from tinytrain.memory.state_layout import StateLayout, state_layout
from tinytrain.memory.verifier import verify_order, verify_plan

SEARCH_NODES = 8000  # effort of the search for offsets that every plan may take, under a second


@dataclass(frozen=True)
class Plan:
    """Where everything of a training step lies, and in which order it runs.

    Attributes:
        graph: the graph, operators in the order in which they run.
        offsets: arena tensor -> byte offset in the arena, a multiple of 4.
        scratch_offsets: operator name -> byte offset of its scratch, where it has any.
        arena_bytes: size of the arena.
        lower_bound_bytes: largest sum of live bytes in this order: no arena can be smaller.
        proven_bound_bytes: the best bound proven for these buffers, at least `lower_bound_bytes`.
        inference_arena_bytes: the part of the arena, from its start, that the forward operators
            touch.
        state: layout of the memory that outlives a step.
        buffers: arena memory over time.
        buffer_offsets: byte offset of each of `buffers`.
        in_place: tensors written over an input of their operator.
        method: how order and offsets were found.
    """

    graph: Graph
    offsets: Mapping[str, int]
    scratch_offsets: Mapping[str, int]
    arena_bytes: int
    lower_bound_bytes: int
    proven_bound_bytes: int
    inference_arena_bytes: int
    state: StateLayout
    buffers: tuple[Buffer, ...]
    buffer_offsets: tuple[int, ...]
    in_place: tuple[str, ...]
    method: str

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> Plan:
        """A copy with each tensor replaced by `change(tensor)`, which keeps name and type: new
        initial values, for one."""
        state = replace(self.state, tensors=tuple(change(t) for t in self.state.tensors))
        return replace(self, graph=self.graph.map_tensors(change), state=state)

    @property
    def proven(self) -> bool:
        """Whether no smaller arena exists for this order and these buffers."""
        return self.arena_bytes == self.proven_bound_bytes

    @property
    def gap_bytes(self) -> int:
        """Bytes that might still be saved by other offsets; 0 if it is proven that none can."""
        return self.arena_bytes - self.proven_bound_bytes


def plan(graph: Graph, *, reorder: bool = True, time_limit_s: float = 0.0) -> Plan:
    """Plan the memory of a training step.

    Args:
        graph: operators in a legal order, FORWARD, then BACKWARD, then APPLY.
        reorder: whether operators may move; if not, or if it does not help, the order stays.
        time_limit_s: further seconds for the exact search of offsets, where a short one did not
            end. At 0 the result is the same on every machine.

    Raises:
        InternalError: the graph is malformed, or the verifier refuses the plan.
    """
    scratch = scratch_bytes(graph)
    candidates: list[_Candidate] = []
    if reorder:
        moved = reorder_graph(graph, scratch=scratch)
        if moved is not graph:
            verify_order(graph, moved)
            candidates += _candidates(moved, "reordered", scratch)
    if not candidates or not _at_bound(candidates[-1]):
        candidates += _candidates(graph, "given order", scratch)
    best = min(candidates, key=lambda c: c.layout.arena_bytes)
    if time_limit_s > 0:
        layout = solve_exact(best.ranges.buffers, time_limit_s=time_limit_s, start=best.layout)
        best = replace(best, layout=layout)
    made = _plan(replace(best, layout=_forward_low(best)))
    verify_plan(
        made.graph,
        made.offsets,
        made.scratch_offsets,
        made.arena_bytes,
        state_offsets=made.state.offsets,
        alignment=ALIGNMENT,
    )
    return made


@dataclass(frozen=True)
class _Candidate:
    """One way to plan a graph."""

    graph: Graph
    order: str
    ranges: LiveRanges
    layout: Layout


def _candidates(graph: Graph, order: str, scratch: Mapping[str, int]) -> list[_Candidate]:
    """Layouts of one order, until one is at the lower bound."""
    rules = sharing(graph)
    shared = live_ranges(graph, scratch=scratch, rules=rules)
    found = [_Candidate(graph, order, shared, _layout(shared))]
    if not _at_bound(found[0]):
        # Outputs that need not be in place for the bound's sake are easier to place on their own.
        apart = _separable(graph, shared)
        loose = live_ranges(graph, scratch=scratch, rules=rules, apart=apart)
        found.append(_Candidate(graph, order, loose, _layout(loose)))
    return found


def _layout(ranges: LiveRanges) -> Layout:
    layout = place(ranges.buffers)
    return solve_exact(ranges.buffers, node_limit=SEARCH_NODES, start=layout)


def _at_bound(candidate: _Candidate) -> bool:
    return candidate.layout.arena_bytes == candidate.layout.lower_bound_bytes


def _separable(graph: Graph, ranges: LiveRanges) -> frozenset[str]:
    """Outputs that can have their own memory without raising the peak of live bytes."""
    live = list(live_bytes(ranges.buffers, ranges.steps))
    peak = max(live)
    time_of = {name: time for time, op in enumerate(graph.ops) for name in op.outputs}
    apart: set[str] = set()
    for name in ranges.in_place:
        time, nbytes = time_of[name], align(graph[name].nbytes)
        if live[time] + nbytes <= peak:
            live[time] += nbytes
            apart.add(name)
    return frozenset(apart)


def _forward_low(candidate: _Candidate) -> Layout:
    """The layout with the forward part's memory as low as can be had without a larger arena."""
    forward = len(candidate.graph.phase(Phase.FORWARD))
    buffers = candidate.ranges.buffers
    return settle(buffers, candidate.layout, [b.start < forward for b in buffers])


def _plan(candidate: _Candidate) -> Plan:
    graph, ranges, layout = candidate.graph, candidate.ranges, candidate.layout
    placed = list(zip(ranges.buffers, layout.offsets, strict=True))
    # Tensors without elements have no buffer.
    offsets = {name: 0 for name, t in graph.tensors.items() if t.in_arena and t.nbytes == 0}
    offsets |= {name: offset for buffer, offset in placed for name in buffer.tensors}
    forward = len(graph.phase(Phase.FORWARD))
    touched = [o + align(b.nbytes) for b, o in placed if b.start < max(forward, 1)]
    return Plan(
        graph=graph,
        offsets=MappingProxyType(dict(sorted(offsets.items()))),
        scratch_offsets=MappingProxyType({b.name: o for b, o in placed if b.scratch}),
        arena_bytes=layout.arena_bytes,
        lower_bound_bytes=layout.lower_bound_bytes,
        proven_bound_bytes=layout.proven_bound_bytes,
        inference_arena_bytes=max(touched, default=0),
        state=state_layout(graph),
        buffers=ranges.buffers,
        buffer_offsets=layout.offsets,
        in_place=ranges.in_place,
        method=f"{candidate.order}; {layout.method}",
    )
