"""Live bytes of many variants of a graph: what passes ask that trade time for memory.

In: graphs that share most of their operators. Out: bytes needed while each operator runs. Must not
know offsets.
"""

from __future__ import annotations

from tinytrain.ir import Graph, Op
from tinytrain.memory.live_ranges import align, live_bytes, live_ranges
from tinytrain.memory.sharing import sharing
from tinytrain.ops.base import definition


class LiveProfile:
    """Counts live bytes; an operator's scratch is asked for once."""

    def __init__(self) -> None:
        self._scratch: dict[int, tuple[Op, int]] = {}  # by identity; keeps the operator alive

    def __call__(self, graph: Graph) -> tuple[int, ...]:
        """Bytes of the arena needed at each operator, in the order given."""
        scratch = {op.name: n for op in graph.ops if (n := self._scratch_of(op, graph))}
        return live_bytes(live_ranges(graph, scratch=scratch).buffers, len(graph.ops))

    def _scratch_of(self, op: Op, graph: Graph) -> int:
        if id(op) not in self._scratch:
            self._scratch[id(op)] = (op, definition(op).call(op, graph).scratch_bytes)
        return self._scratch[id(op)][1]


def bound_in_any_order(graph: Graph) -> int:
    """Bytes without which no plan of the graph can be, whatever the order of its operators.

    While an operator runs there are its inputs, its scratch and those of its outputs that cannot
    be written over an input.
    """
    rules = sharing(graph)
    largest = 0
    for op in graph.ops:
        replaced = {t.output for t in rules.takeovers[op.name]}
        there = {rules.root[n] for n in op.inputs if n in rules.root}
        there |= {rules.root[n] for n in op.outputs if n in rules.root} - replaced
        scratch = definition(op).call(op, graph).scratch_bytes
        largest = max(largest, sum(align(graph[n].nbytes) for n in there) + align(scratch))
    return largest
