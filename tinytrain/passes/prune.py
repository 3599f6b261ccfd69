"""Drop operators whose results nobody needs. Source: DESIGN section 4."""

from __future__ import annotations

from tinytrain.ir import Graph, Op, Role
from tinytrain.ops.base import definition


def prune(graph: Graph) -> Graph:
    """Keep operators that lead to an output of the graph or change a trained state.

    An error range or scale alone is no reason to keep an operator: it serves the errors.
    """
    needed = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if definition(op).trains or needed.intersection(op.outputs):
            kept.append(op)
            needed.update(n for n in op.inputs if n and graph[n].role is Role.ACTIVATION)
    return graph.with_ops(reversed(kept))
