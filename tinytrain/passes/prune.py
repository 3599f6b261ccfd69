"""Drop operators whose results nobody needs. Source: DESIGN section 4."""

from __future__ import annotations

from tinytrain.ir import Graph, Op, Role


def prune(graph: Graph) -> Graph:
    """Keep operators that lead to an output of the graph or change a trained state.

    An error range or scale alone is no reason to keep an operator: it serves the errors.
    """
    needed = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if any(_matters(graph, name, needed) for name in op.outputs):
            kept.append(op)
            needed.update(op.inputs)
    return graph.with_ops(reversed(kept))


def _matters(graph: Graph, name: str, needed: set[str]) -> bool:
    tensor = graph[name]
    if tensor.role in (Role.STATE, Role.BUFFER):
        return not name.endswith("_range")
    return name in needed
