"""The judge of memory plans: simulates the schedule over the bytes of the arena.

In: a graph in execution order and the addresses of a plan. Out: nothing, or an error that names
operator and tensor. It shares no code with the planner and knows no live ranges: it notes for
every byte whose value it holds, and looks at each read whether that value is still there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tinytrain.errors import InternalError
from tinytrain.ir import Graph, Op, Phase, Role
from tinytrain.ops.base import definition

UNWRITTEN = 0


def verify_plan(
    graph: Graph,
    offsets: Mapping[str, int],
    scratch_offsets: Mapping[str, int],
    arena_bytes: int,
    *,
    state_offsets: Mapping[str, int] | None = None,
    alignment: int = 4,
) -> None:
    """Refuse a plan by which any operator would read anything but what was written for it.

    Args:
        graph: operators in execution order.
        offsets: arena tensor -> byte offset.
        scratch_offsets: operator name -> byte offset of its scratch.
        arena_bytes: size of the arena.
        state_offsets: offsets of the state and buffer tensors in their block, if to be checked.
        alignment: of which every offset is a multiple.

    Raises:
        InternalError: the plan is wrong; says where.
    """
    _check_phases(graph)
    if state_offsets is not None:
        _check_state(graph, state_offsets, alignment)
    run = _Simulation(graph, offsets, scratch_offsets, arena_bytes, alignment)
    for name, tensor in graph.tensors.items():
        if tensor.role is Role.INPUT:
            run.write(name, "the start")
    for op in graph.phase(Phase.FORWARD):
        run.step(op)
    run.check_outputs("the end of the forward part", forward=True)
    for op in graph.phase(Phase.BACKWARD, Phase.APPLY):
        run.step(op)
    run.check_outputs("the end", forward=False)


def verify_order(given: Graph, changed: Graph) -> None:
    """Refuse a new order in which an operator would read another value than in the given one.

    Raises:
        InternalError: the operators are not the same, or one of them reads, or the end of the
            step finds, a tensor as another operator wrote it.
    """
    if Counter(id(op) for op in given.ops) != Counter(id(op) for op in changed.ops):
        raise InternalError("order", "memory", "the reordered graph has other operators")
    _check_phases(changed)
    before, after = _reads(given), _reads(changed)
    for place, writer in before.items():
        if after[place] != writer:
            reader, name = place
            message = f"{name} was made by {writer or 'none'}, now by {after[place] or 'none'}"
            raise InternalError("order", "memory", message, where=reader)


def _reads(graph: Graph) -> dict[tuple[str, str], str]:
    """(operator, tensor it reads) -> operator that wrote it; "" for initial values.

    The final value of each tensor is a read by the operator "".
    """
    writer: dict[str, str] = {}
    found: dict[tuple[str, str], str] = {}
    for op in graph.ops:
        for name in op.inputs:
            found[op.name, name] = writer.get(name, "")
        for name in op.outputs:
            # A write counts on the value it replaces, even where it does not read it.
            found[op.name, f"{name} before"] = writer.get(name, "")
            writer[name] = op.name
    for name, last in writer.items():
        found["", name] = last
    return found


def _check_phases(graph: Graph) -> None:
    rank = {phase: i for i, phase in enumerate(Phase)}
    ranks = [rank[op.phase] for op in graph.ops]
    for op, earlier, later in zip(graph.ops[1:], ranks, ranks[1:], strict=False):
        if later < earlier:
            raise InternalError("phase", "memory", "phases are mixed", where=op.name)


def _check_state(graph: Graph, offsets: Mapping[str, int], alignment: int) -> None:
    kept = [t for t in graph.tensors.values() if t.role in (Role.STATE, Role.BUFFER)]
    end = {Role.STATE: 0, Role.BUFFER: 0}
    last = ""
    for tensor in sorted(kept, key=lambda t: (offsets.get(t.name, -1), t.nbytes)):
        start = offsets.get(tensor.name, -1)
        if start < 0 or start % alignment:
            raise InternalError("state", "memory", f"state offset {start}", where=tensor.name)
        if start < max(end.values()) or (tensor.role is Role.STATE and end[Role.BUFFER]):
            message = f"state overlaps or follows {last}"
            raise InternalError("state", "memory", message, where=tensor.name)
        end[tensor.role] = start + tensor.nbytes
        last = tensor.name


@dataclass
class _Simulation:
    """The arena while the schedule runs."""

    graph: Graph
    offsets: Mapping[str, int]
    scratch_offsets: Mapping[str, int]
    arena_bytes: int
    alignment: int
    # Whose value each byte holds (0: nobody's), and the value that each tensor must have.
    held: npt.NDArray[np.int32] = field(init=False)
    value: dict[str, int] = field(default_factory=dict)
    owner: dict[int, str] = field(default_factory=lambda: {UNWRITTEN: "nothing"})

    def __post_init__(self) -> None:
        self.held = np.full(self.arena_bytes, UNWRITTEN, dtype=np.int32)

    def step(self, op: Op) -> None:
        """Run one operator."""
        inputs = dict.fromkeys(n for n in op.inputs if n and self.graph[n].in_arena)
        outputs = [n for n in op.outputs if n and self.graph[n].in_arena]
        scratch = self._scratch(op)
        if scratch:
            self._fill(scratch, f"scratch of {op.name}")
        # Scratch may be written before the first and after the last read, so it comes first.
        for name in inputs:
            self.check(name, op.name)
        for position, name in enumerate(op.outputs):
            if name in outputs:
                self._check_target(op, position, scratch, outputs)
        for position, name in enumerate(op.outputs):
            if name in outputs:
                self._write_output(op, position)

    def write(self, name: str, where: str) -> None:
        """Give a tensor a new value in its memory."""
        if name in self.value:
            raise self._wrong("is written twice", name, where)
        self.value[name] = self._fill(self._place(name, where), name)

    def check(self, name: str, where: str) -> None:
        """Refuse to read a tensor whose bytes do not all hold its value."""
        if name not in self.value:
            raise self._wrong("is read before it is written", name, where)
        start, end = self._place(name, where)
        wrong = np.flatnonzero(self.held[start:end] != self.value[name])
        if len(wrong):
            by = self.owner[int(self.held[start + wrong[0]])]
            raise self._wrong(f"was overwritten by {by} at byte {start + wrong[0]}", name, where)

    def check_outputs(self, where: str, *, forward: bool) -> None:
        """The results of the forward, or of the later, operators must be there."""
        late = {n for op in self.graph.ops if op.phase is not Phase.FORWARD for n in op.outputs}
        for name in self.graph.outputs:
            if self.graph[name].in_arena and forward is (name not in late):
                self.check(name, where)

    def _write_output(self, op: Op, position: int) -> None:
        name = op.outputs[position]
        source = op.inputs[0] if position == 0 and definition(op).alias and op.inputs else ""
        same_place = source in self.value and self.offsets[source] == self.offsets[name]
        if source and same_place and self._fits(name, source):
            # No data moves, so the bytes are the source's value as well as this one.
            if name in self.value:
                raise self._wrong("is written twice", name, op.name)
            self._place(name, op.name)
            self.value[name] = self.value[source]
        else:
            self.write(name, op.name)

    def _check_target(
        self, op: Op, position: int, scratch: tuple[int, int] | None, outputs: list[str]
    ) -> None:
        """An output must lie apart from scratch, other outputs and inputs, unless declared."""
        name = op.outputs[position]
        place = self._place(name, op.name)
        if scratch and _overlap(place, scratch):
            raise self._wrong("overlaps the scratch", name, op.name)
        for other in outputs:
            if other != name and _overlap(place, self._place(other, op.name)):
                raise self._wrong(f"overlaps the output {other}", name, op.name)
        rule = definition(op)
        pairs = rule.in_place_pairs(op, self.graph)
        for index, source in enumerate(op.inputs):
            if not source or not self.graph[source].in_arena:
                continue
            if not _overlap(place, self._place(source, op.name)):
                continue
            allowed = (index, position) in pairs or (rule.alias and index == 0 and position == 0)
            same_place = self.offsets[source] == self.offsets[name]
            if not (allowed and same_place and self._fits(name, source)):
                raise self._wrong(f"overlaps the input {source}", name, op.name)

    def _fits(self, output: str, source: str) -> bool:
        return self.graph[output].nbytes <= self.graph[source].nbytes

    def _scratch(self, op: Op) -> tuple[int, int] | None:
        nbytes = definition(op).call(op, self.graph).scratch_bytes
        if not nbytes:
            return None
        if op.name not in self.scratch_offsets:
            raise self._wrong("has no scratch", op.name, op.name)
        start = self.scratch_offsets[op.name]
        return self._interval(start, nbytes, f"scratch of {op.name}", op.name)

    def _place(self, name: str, where: str) -> tuple[int, int]:
        if name not in self.offsets:
            raise self._wrong("has no address", name, where)
        return self._interval(self.offsets[name], self.graph[name].nbytes, name, where)

    def _interval(self, start: int, nbytes: int, name: str, where: str) -> tuple[int, int]:
        if start < 0 or start + nbytes > self.arena_bytes:
            raise self._wrong(f"lies at {start}, outside of the arena", name, where)
        if start % self.alignment:
            raise self._wrong(f"lies at {start}, which is not aligned", name, where)
        return start, start + nbytes

    def _fill(self, place: tuple[int, int], name: str) -> int:
        value = len(self.owner)
        self.owner[value] = name
        self.held[place[0] : place[1]] = value
        return value

    def _wrong(self, what: str, name: str, where: str) -> InternalError:
        return InternalError("memory-plan", "memory", f"{name} {what}", where=where)


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[0] < a[1] and b[0] < b[1]
