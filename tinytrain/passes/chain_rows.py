"""Run chains of layers row by row where that lowers the peak of memory.

What is between the layers of a chain is then a few rows instead of whole tensors, and its output
may take the place of its input. Chains are runs of neighbouring operators; nothing in between may
be read from outside, as the backward pass reads what it keeps. They are chosen greedily: of all
chains through the operator at the peak, the one after which the peak is lowest. The numbers stay
the same. Then the layers of each chain make more rows at a time, which is faster, as long as the
peak grows little, and never above that of the graph without chains. Source: DESIGN section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tinytrain.ir import Graph, Op, Phase, Role, Tensor
from tinytrain.ops.row_chain import MAX_OPERANDS, MAX_STAGES, can_chain

LiveBytes = Callable[[Graph], Sequence[int]]

BATCHES = (8, 4, 2)
SLACK = 0.125  # part of the peak that is given for batches of rows


@dataclass(frozen=True)
class _Span:
    """Operators first to end (half-open); `copied`: its input is copied row by row at first."""

    first: int
    end: int
    copied: bool
    batch: int = 1

    def overlaps(self, other: _Span) -> bool:
        """Whether an operator is in both."""
        return self.first < other.end and other.first < self.end

    def around(self, other: _Span) -> Iterator[_Span]:
        """What is left of this one before and behind the other."""
        if self.first < other.first:
            yield _Span(self.first, other.first, self.copied)
        if other.end < self.end:
            yield _Span(other.end, self.end, copied=False)

    @property
    def cost(self) -> int:
        """Stages; fewer are faster."""
        return self.end - self.first + self.copied


@dataclass(frozen=True)
class _Score:
    """The peak, how many operators reach it, and where the first of them is in the plain graph."""

    peak: int
    count: int
    places: tuple[int, ...]


def chain_rows(
    graph: Graph, live_bytes: LiveBytes, slack: float = SLACK, enough_bytes: int = 0
) -> Graph:
    """The graph with chains in place of the operators they are made of.

    Args:
        graph: operators in a legal order.
        live_bytes: bytes of the arena that are needed while each operator runs, for a graph whose
            operators run in order.
        slack: part of the peak by which it may grow again for the sake of speed.
        enough_bytes: a peak that need not be lowered any further, and to which it may grow again.
    """
    search = _Search(graph, live_bytes)
    spans: tuple[_Span, ...] = ()
    score = search.score(spans)
    while score.peak > enough_bytes:
        best = (score.peak, score.count, 0, spans)
        for candidate in search.candidates(score, spans):
            found = search.score(candidate)
            cost = sum(span.cost for span in candidate)
            if (found.peak, found.count) < (score.peak, score.count):
                best = min(best, (found.peak, found.count, cost, candidate), key=lambda b: b[:3])
        if best[3] == spans:
            break
        spans = best[3]
        score = search.score(spans)
    limit = max(round(score.peak * (1 + slack)), enough_bytes)
    limit = min(limit, search.score(()).peak)
    return search.graph_of(_in_batches(search, spans, limit))


def _in_batches(search: _Search, spans: tuple[_Span, ...], limit: int) -> tuple[_Span, ...]:
    """The same chains, each with as many rows at a time as the limit on the peak allows."""
    for index, span in enumerate(spans):
        for batch in BATCHES:
            larger = (*spans[:index], replace(span, batch=batch), *spans[index + 1 :])
            if search.score(larger).peak <= limit:
                spans = larger
                break
    return spans


class _Search:
    """Sets of chains of one graph, and what they are worth."""

    def __init__(self, graph: Graph, live_bytes: LiveBytes) -> None:
        self.graph, self.live_bytes = graph, live_bytes
        self.chainable = [op.phase is Phase.FORWARD and can_chain(op, graph) for op in graph.ops]
        self.chains: dict[_Span, Op | None] = {}
        self.scores: dict[tuple[_Span, ...], _Score] = {}

    def candidates(self, score: _Score, spans: Sequence[_Span]) -> Iterator[tuple[_Span, ...]]:
        """Sets of chains with another one through an operator at the peak."""
        for first, end in self._stretches(score.places[0]):
            for copied in (False, True):
                span = _Span(first, end, copied)
                if span in spans or self._chain(span) is None:
                    continue
                others = [s for s in spans if not s.overlaps(span)]
                rests = [
                    rest
                    for s in spans
                    if s.overlaps(span)
                    for rest in s.around(span)
                    if self._chain(rest) is not None
                ]
                for chosen in {(*others, span), (*others, span, *rests)}:
                    yield tuple(sorted(chosen, key=lambda s: s.first))

    def _stretches(self, place: int) -> Iterator[tuple[int, int]]:
        for first in range(max(0, place - MAX_STAGES + 1), place + 1):
            for end in range(place + 1, min(len(self.graph.ops), first + MAX_STAGES) + 1):
                if all(self.chainable[first:end]):
                    yield first, end

    def graph_of(self, spans: Sequence[_Span]) -> Graph:
        """The graph with these chains."""
        ops: list[Op] = []
        done = 0
        for span in spans:
            chain = self._chain(span)
            assert chain is not None
            ops += [*self.graph.ops[done : span.first], chain]
            done = span.end
        return self.graph.with_ops([*ops, *self.graph.ops[done:]])

    def score(self, spans: tuple[_Span, ...]) -> _Score:
        """What a set of chains comes to."""
        if spans not in self.scores:
            live = self.live_bytes(self.graph_of(spans))
            peak = max(live, default=0)
            places = tuple(self._place(spans, i) for i, n in enumerate(live) if n == peak)
            self.scores[spans] = _Score(peak, len(places), places or (0,))
        return self.scores[spans]

    @staticmethod
    def _place(spans: Sequence[_Span], index: int) -> int:
        """First operator of the plain graph that is in operator `index` of that with chains."""
        for span in spans:
            if index <= span.first:
                break
            index += span.end - span.first - 1
        return index

    def _chain(self, span: _Span) -> Op | None:
        """The chain of a span; None if it cannot be one."""
        if span not in self.chains:
            self.chains[span] = _make_chain(self.graph, span)
        return self.chains[span]


def _make_chain(graph: Graph, span: _Span) -> Op | None:
    ops = list(graph.ops[span.first : span.end])
    made = {op.outputs[0] for op in ops[:-1]}
    inside = {id(op) for op in ops}
    for before, op in zip(ops, ops[1:], strict=False):
        if before.outputs[0] not in op.inputs:
            return None
    for name in made:
        if name in graph.outputs or any(id(c) not in inside for c in graph.consumers[name]):
            return None
    tensors: list[Tensor] = []
    if span.copied:
        ops, tensors = _with_copy(graph, ops)
    if not 1 < len(ops) <= MAX_STAGES:
        return None
    read = dict.fromkeys(n for op in ops for n in op.inputs if n)
    given = tuple(n for n in read if n not in made and n in graph.tensors)
    if sum(graph[n].in_arena for n in given) > MAX_OPERANDS:
        return None
    outputs = ops[-1].outputs
    body = replace(graph, ops=(), inputs=given, outputs=outputs).with_ops(ops, tensors)
    name = f"{ops[-1].name}_rows"
    return Op("row_chain", name, given, outputs, {"batch": span.batch}, Phase.FORWARD, body)


def _with_copy(graph: Graph, ops: Sequence[Op]) -> tuple[list[Op], list[Tensor]]:
    """The operators on a copy of what the first of them reads."""
    source = graph[ops[0].inputs[0]]
    copy = replace(source, name=graph.fresh_name(f"{source.name}_rows"), role=Role.ACTIVATION)
    renamed = [
        replace(op, inputs=tuple(copy.name if n == source.name else n for n in op.inputs))
        for op in ops
    ]
    first = Op("copy_rows", f"{ops[0].name}_copy_rows", (source.name,), (copy.name,))
    return [first, *renamed], [copy]
