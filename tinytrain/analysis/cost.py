"""What a graph costs: multiply-accumulates, and bytes by role.

In: a graph. Out: numbers. Bytes are those of the tensors, not of a memory plan, in which
activations share addresses. Must not know boards or plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tinytrain.ir import Graph, Op, Phase, Role
from tinytrain.ops.base import definition


@dataclass(frozen=True)
class OpCost:
    """The cost of one operator.

    Attributes:
        macs: multiply-accumulates.
        weight_bytes: its constants and states, whether or not others read them too.
        activation_bytes: what it makes in the arena.
    """

    name: str
    kind: str
    phase: Phase
    macs: int
    weight_bytes: int
    activation_bytes: int


@dataclass(frozen=True)
class GraphCost:
    """The cost of a graph; each tensor counts once."""

    ops: tuple[OpCost, ...]
    const_bytes: int
    state_bytes: int
    buffer_bytes: int
    activation_bytes: int  # inputs included

    def macs(self, *phases: Phase) -> int:
        """Multiply-accumulates of these phases; of all if none is given."""
        return sum(op.macs for op in self.ops if not phases or op.phase in phases)


def graph_cost(graph: Graph) -> GraphCost:
    """The cost of all operators and used tensors."""
    used = set(graph.inputs) | set(graph.outputs)
    for op in graph.ops:
        used.update(n for n in (*op.inputs, *op.outputs) if n)

    def total(*roles: Role) -> int:
        return sum(graph[n].nbytes for n in used if graph[n].role in roles)

    return GraphCost(
        tuple(op_cost(op, graph) for op in graph.ops),
        const_bytes=total(Role.CONST),
        state_bytes=total(Role.STATE),
        buffer_bytes=total(Role.BUFFER),
        activation_bytes=total(Role.INPUT, Role.ACTIVATION),
    )


def op_cost(op: Op, graph: Graph) -> OpCost:
    """The cost of one operator."""
    return OpCost(
        op.name,
        op.kind,
        op.phase,
        definition(op).macs(op, graph),
        _bytes(graph, op.inputs, (Role.CONST, Role.STATE)),
        _bytes(graph, op.outputs, (Role.ACTIVATION,)),
    )


def _bytes(graph: Graph, names: Iterable[str], roles: tuple[Role, ...]) -> int:
    distinct = dict.fromkeys(name for name in names if name)
    return sum(graph[name].nbytes for name in distinct if graph[name].role in roles)
