"""The order of the operators, where they may move.

In: a graph in a legal order. Out: the same operators in an order that needs less memory, or the
given order if none is found. Forward stays before backward, backward before apply, and every
operator still reads what the same operator wrote, state that is overwritten in place included.
Must not know offsets.

The bytes that are live after a set of operators has run depend on the set alone, not on the order
in it. So the search goes over sets, keeps the best way to each, and for speed only the most
promising sets of each size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tinytrain.ir import Graph, Op, Phase, Role
from tinytrain.memory.live_ranges import align, live_bytes, live_ranges, scratch_bytes
from tinytrain.memory.sharing import Sharing, sharing

BEAM = 48  # sets kept of each size


def reorder(graph: Graph, *, scratch: Mapping[str, int] | None = None, beam: int = BEAM) -> Graph:
    """The graph in an order with a smaller peak of live bytes; itself if there is none.

    Among orders of one peak the one with fewer live bytes over time is preferred, then the one
    nearer to the given order.

    Args:
        graph: operators in a legal order.
        scratch: `scratch_bytes(graph)`, where it is known already.
        beam: sets of operators kept of each size; more is slower and better.
    """
    scratch = scratch_bytes(graph) if scratch is None else scratch
    rules = sharing(graph)
    model = _Model(graph, rules, scratch)
    order: list[int] = []
    done = 0
    for phase in Phase:
        members = [i for i, op in enumerate(graph.ops) if op.phase is phase]
        order += _search(model, done, members, beam)
        for i in members:
            done |= 1 << i
    changed = replace(graph, ops=tuple(graph.ops[i] for i in order))
    if _cost(changed, scratch) < _cost(graph, scratch):
        return changed
    return graph


def _cost(graph: Graph, scratch: Mapping[str, int]) -> tuple[int, int]:
    live = live_bytes(live_ranges(graph, scratch=scratch).buffers, len(graph.ops))
    return max(live), sum(live)


def dependencies(ops: Sequence[Op]) -> list[int]:
    """For each operator the set (bit mask) of operators that must run before it.

    A reader comes after the last writer before it; a writer after the writer before it, and after
    all that read what that one wrote.
    """
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    found: list[int] = []
    for index, op in enumerate(ops):
        before = 0
        for name in op.inputs:
            if name in writer:
                before |= 1 << writer[name]
        for name in op.outputs:
            for earlier in (*readers.pop(name, ()), writer.get(name, -1)):
                if earlier >= 0:
                    before |= 1 << earlier
        for name in op.inputs:
            if name:
                readers.setdefault(name, []).append(index)
        for name in op.outputs:
            if name:
                writer[name] = index
        found.append(before & ~(1 << index))
    return found


@dataclass(frozen=True)
class _Class:
    """An alias class: bytes, its users, and until when it is kept besides."""

    nbytes: int
    users: int
    pinned: int


@dataclass(frozen=True)
class _Move:
    """What running an operator does to memory."""

    needs: int  # operators that must have run
    uses: tuple[int, ...]  # classes that may die here
    new: tuple[int, ...]  # classes that begin here
    takeovers: tuple[tuple[int, int], ...]  # (class, new class written over it)
    scratch: int


class _Model:
    """Live bytes as a function of the set of operators that have run."""

    def __init__(self, graph: Graph, rules: Sharing, scratch: Mapping[str, int]) -> None:
        index = {first: i for i, first in enumerate(rules.members)}
        forward = sum(1 << i for i, op in enumerate(graph.ops) if op.phase is Phase.FORWARD)
        everything = (1 << len(graph.ops)) - 1
        users = [0] * len(index)
        pinned = [0] * len(index)
        self.moves: list[_Move] = []
        for i, (op, needs) in enumerate(zip(graph.ops, dependencies(graph.ops), strict=True)):
            used = dict.fromkeys(rules.root[n] for n in op.inputs if n in rules.root)
            made = dict.fromkeys(n for n in op.outputs if rules.root.get(n) == n)
            for name in (*used, *(rules.root[n] for n in op.outputs if n in rules.root)):
                users[index[name]] |= 1 << i
            for name in op.outputs:
                if name in graph.outputs and name in rules.root:
                    until = forward if op.phase is Phase.FORWARD else everything
                    pinned[index[rules.root[name]]] |= until
            self.moves.append(
                _Move(
                    needs,
                    tuple(index[n] for n in (*used, *made)),
                    tuple(index[n] for n in made),
                    tuple((index[t.root], index[t.output]) for t in rules.takeovers[op.name]),
                    align(scratch.get(op.name, 0)),
                )
            )
        self.classes = [
            _Class(align(graph[first].nbytes), users[i], pinned[i]) for first, i in index.items()
        ]
        self.inputs = [i for first, i in index.items() if graph[first].role is Role.INPUT]
        self.pins = [i for i, c in enumerate(self.classes) if c.pinned]

    def live(self, done: int) -> int:
        """Bytes that must be kept once the operators `done` have run."""
        begun = set(self.inputs)
        for i, move in enumerate(self.moves):
            if done >> i & 1:
                begun.update(move.new)
        return sum(self.classes[i].nbytes for i in begun if not self._dead(i, done))

    def run(self, index: int, done: int, live: int) -> tuple[int, int]:
        """Bytes needed while operator `index` runs after `done`, and bytes kept after it."""
        move = self.moves[index]
        after = done | 1 << index
        classes = self.classes
        new = sum(classes[i].nbytes for i in move.new)
        freed = sum(classes[i].nbytes for i in move.uses if self._dead(i, after))
        for i in self.pins:
            if i not in move.uses and self._dead(i, after) and not self._dead(i, done):
                freed += classes[i].nbytes
        saved = 0
        taken: list[int] = []
        for first, output in move.takeovers:
            if self._dead(first, after) and first not in taken and output not in taken:
                taken += (first, output)
                saved += classes[output].nbytes
        return live + new - saved + move.scratch, live + new - freed

    def _dead(self, index: int, done: int) -> bool:
        kind = self.classes[index]
        return not (kind.users | kind.pinned) & ~done


class _Way(NamedTuple):
    """The best known way to a set of operators."""

    peak: int
    area: int
    order: tuple[int, ...]
    live: int


def _search(model: _Model, done: int, members: Sequence[int], beam: int) -> list[int]:
    """The order of a phase's operators, given those that ran in the phases before."""
    frontier = {done: _Way(0, 0, (), model.live(done))}
    for _ in members:
        reached: dict[int, _Way] = {}
        for ran, way in frontier.items():
            for index, way_on in _steps(model, ran, way, members):
                key = ran | 1 << index
                if key not in reached or way_on < reached[key]:
                    reached[key] = way_on
        if len(reached) > beam:
            best = sorted(reached.items(), key=lambda item: item[1])[:beam]
            reached = dict(best)
        frontier = reached
    return list(min(frontier.values()).order)


def _steps(
    model: _Model, ran: int, way: _Way, members: Sequence[int]
) -> Iterator[tuple[int, _Way]]:
    """The operators worth running next.

    One that raises neither the peak nor what is kept can run at once: later it would free no
    less, and everything between would have no less room.
    """
    found: list[tuple[int, _Way]] = []
    for index in members:
        if ran >> index & 1 or model.moves[index].needs & ~ran:
            continue
        during, after = model.run(index, ran, way.live)
        step = _Way(max(way.peak, during), way.area + during, (*way.order, index), after)
        if after <= way.live and during <= way.peak:
            yield index, step
            return
        found.append((index, step))
    yield from found
