"""When each piece of arena memory is needed.

In: a graph whose operators are in their final order; the index of an operator is the time.
Out: buffers, each a stretch of memory at one address with the tensors that pass through it and
the bytes it needs over half-open time intervals. Must not know offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinytrain.ir import Graph, Phase, Role
from tinytrain.memory.sharing import Sharing, sharing
from tinytrain.ops.base import definition

ALIGNMENT = 4


@dataclass(frozen=True)
class Segment:
    """`nbytes` are needed from time `start` to before `end`."""

    start: int
    end: int
    nbytes: int


@dataclass(frozen=True)
class Buffer:
    """Memory at one address.

    Attributes:
        name: the first tensor in it, or the operator whose scratch it is.
        tensors: the tensors in it, all at its start; () for scratch.
        segments: adjoining, in time order, `nbytes` never growing (a tensor written in place is
            at most as large as the one it replaces).
        scratch: whether it is an operator's scratch.
    """

    name: str
    tensors: tuple[str, ...]
    segments: tuple[Segment, ...]
    scratch: bool = False

    @property
    def start(self) -> int:
        """First time at which it is needed."""
        return self.segments[0].start

    @property
    def end(self) -> int:
        """First time at which it is not needed any more."""
        return self.segments[-1].end

    @property
    def nbytes(self) -> int:
        """Largest need, not aligned."""
        return self.segments[0].nbytes

    def nbytes_at(self, time: int) -> int:
        """Bytes needed at a time; 0 outside of the live range."""
        return next((s.nbytes for s in self.segments if s.start <= time < s.end), 0)


@dataclass(frozen=True)
class LiveRanges:
    """The buffers of a graph.

    Attributes:
        buffers: ordered by start, then by name.
        steps: number of operators.
        in_place: outputs that are written over an input, in time order.
    """

    buffers: tuple[Buffer, ...]
    steps: int
    in_place: tuple[str, ...]


def align(nbytes: int, alignment: int = ALIGNMENT) -> int:
    """The next multiple of `alignment`."""
    return -(-nbytes // alignment) * alignment


def scratch_bytes(graph: Graph) -> dict[str, int]:
    """Operator name -> bytes of scratch, where there is any."""
    found = ((op.name, definition(op).call(op, graph).scratch_bytes) for op in graph.ops)
    return {name: nbytes for name, nbytes in found if nbytes}


def live_bytes(
    buffers: Sequence[Buffer], steps: int, alignment: int = ALIGNMENT
) -> tuple[int, ...]:
    """Bytes needed at each time, every buffer rounded up to the alignment."""
    change = [0] * (max(steps, 1) + 1)
    for buffer in buffers:
        for segment in buffer.segments:
            nbytes = align(segment.nbytes, alignment)
            change[segment.start] += nbytes
            change[segment.end] -= nbytes
    live: list[int] = []
    total = 0
    for delta in change[:-1]:
        total += delta
        live.append(total)
    return tuple(live)


def live_ranges(
    graph: Graph,
    *,
    scratch: Mapping[str, int] | None = None,
    rules: Sharing | None = None,
    apart: frozenset[str] = frozenset(),
) -> LiveRanges:
    """The buffers of a graph, sharing memory wherever that is legal.

    Args:
        graph: operators in execution order.
        scratch: `scratch_bytes(graph)`, where it is known already.
        rules: `sharing(graph)`, where it is known already.
        apart: outputs that are to have memory of their own although they could be in place.

    Raises:
        InternalError: the graph is malformed (see `sharing`).
    """
    rules = sharing(graph) if rules is None else rules
    scratch = scratch_bytes(graph) if scratch is None else scratch
    spans = _class_spans(graph, rules)
    chains: dict[str, list[str]] = {first: [first] for first in spans}
    owner = {first: first for first in spans}
    in_place: list[str] = []
    for time, op in enumerate(graph.ops):
        for first, output in _taken(rules, spans, op.name, time, apart):
            chain = chains[owner[first]]
            chain.append(output)
            owner[output] = owner[first]
            del chains[output]
            in_place.append(output)
    found = [_buffer(graph, rules, spans, chain) for chain in chains.values()]
    for time, op in enumerate(graph.ops):
        if op.name in scratch:
            segment = Segment(time, time + 1, scratch[op.name])
            found.append(Buffer(op.name, (), (segment,), scratch=True))
    # A tensor without elements needs no memory; its address is 0 by convention.
    found = [b for b in found if b.nbytes > 0]
    ordered = sorted(found, key=lambda b: (b.start, b.scratch, b.name))
    return LiveRanges(tuple(ordered), len(graph.ops), tuple(in_place))


def _class_spans(graph: Graph, rules: Sharing) -> dict[str, tuple[int, int]]:
    """Half-open live range of each alias class."""
    steps = len(graph.ops)
    forward = sum(op.phase is Phase.FORWARD for op in graph.ops)
    spans: dict[str, list[int]] = {}
    for name, first in rules.root.items():
        if graph[name].role is Role.INPUT:
            spans[first] = [0, 1]
    for time, op in enumerate(graph.ops):
        for name in (*op.inputs, *op.outputs):
            if name in rules.root:
                span = spans.setdefault(rules.root[name], [time, time + 1])
                span[1] = max(span[1], time + 1)
        for name in op.outputs:
            if name in graph.outputs and name in rules.root:
                span = spans[rules.root[name]]
                span[1] = max(span[1], forward if op.phase is Phase.FORWARD else steps)
    for name in graph.outputs:
        if name in rules.root and graph[name].role is Role.INPUT:
            span = spans[rules.root[name]]
            span[1] = max(span[1], forward)
    return {first: (start, end) for first, (start, end) in spans.items()}


def _taken(
    rules: Sharing,
    spans: Mapping[str, tuple[int, int]],
    op: str,
    time: int,
    apart: frozenset[str],
) -> list[tuple[str, str]]:
    """The takeovers that happen at an operator: at most one for each output and each input.

    Of several inputs the one that came last is overwritten: the buffer then lives shorter and is
    easier to place.
    """
    legal = [
        (t.root, t.output)
        for t in rules.takeovers[op]
        if spans[t.root][1] == time + 1 and t.output not in apart
    ]
    legal.sort(key=lambda pair: -spans[pair[0]][0])
    chosen: list[tuple[str, str]] = []
    for first, output in legal:
        if all(first != f and output != o for f, o in chosen):
            chosen.append((first, output))
    return chosen


def _buffer(
    graph: Graph, rules: Sharing, spans: Mapping[str, tuple[int, int]], chain: Sequence[str]
) -> Buffer:
    segments: list[Segment] = []
    for first in chain:
        start, end = spans[first]
        if segments:
            start = segments[-1].end
        nbytes = graph[first].nbytes
        if segments and segments[-1].nbytes == nbytes:
            start = segments.pop().start
        if start < end:
            segments.append(Segment(start, end, nbytes))
    tensors = tuple(name for first in chain for name in rules.members[first])
    return Buffer(chain[0], tensors, tuple(segments))
