"""Which arena tensors may use the same memory, by the traits of their operators.

In: a graph. Out: alias classes (tensors that hold the same bytes) and, for each operator, the
takeovers it allows (an output written over a consumed input). Says nothing of time: whether an
input is consumed depends on the order and is asked by the users of this module. Must not know
offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinytrain.errors import InternalError
from tinytrain.ir import Graph, Op, Role
from tinytrain.ops.base import definition


@dataclass(frozen=True)
class Takeover:
    """An output that an operator may write over the memory of an input's alias class."""

    root: str
    output: str


@dataclass(frozen=True)
class Sharing:
    """What may share memory.

    Attributes:
        root: arena tensor -> the first tensor of its alias class. All members have one address
            and one content, so the class lives until its last member dies.
        takeovers: operator name -> takeovers, legal where the operator is the last user of the
            whole class.
        members: root -> the class, in order of appearance.
    """

    root: Mapping[str, str]
    takeovers: Mapping[str, tuple[Takeover, ...]]
    members: Mapping[str, tuple[str, ...]]


def sharing(graph: Graph) -> Sharing:
    """Alias classes and allowed takeovers of a graph.

    Raises:
        InternalError: two operators have one name, an arena tensor is written twice, or read
            before it is written.
    """
    root = {name: name for name, t in graph.tensors.items() if t.role is Role.INPUT}
    names: set[str] = set()
    for op in graph.ops:
        if op.name in names:
            raise _malformed("duplicate-op", f"two operators are called {op.name}", op)
        names.add(op.name)
        for name in op.inputs:
            if name and graph[name].in_arena and name not in root:
                raise _malformed("read-before-write", f"{name} is read before it is written", op)
        for position, name in enumerate(op.outputs):
            if not name or not graph[name].in_arena:
                continue
            if name in root:
                raise _malformed("written-twice", f"{name} is written twice", op)
            root[name] = _alias_root(graph, root, op, position)
    members: dict[str, list[str]] = {}
    for name, first in root.items():
        members.setdefault(first, []).append(name)
    fixed = {root[name] for name in graph.outputs if name in root}
    takeovers = {op.name: _takeovers(graph, root, fixed, op) for op in graph.ops}
    return Sharing(root, takeovers, {first: tuple(names) for first, names in members.items()})


def _alias_root(graph: Graph, root: Mapping[str, str], op: Op, position: int) -> str:
    """The class that an output joins: that of input 0 for an operator which moves no data.

    Such sharing is never worse than a copy, even where the input lives on: the class is then
    not written in place, and the copy would have taken what that write takes.
    """
    output = op.outputs[position]
    if position != 0 or not definition(op).alias or not op.inputs or not op.inputs[0]:
        return output
    source = op.inputs[0]
    if not graph[source].in_arena or graph[output].nbytes > graph[source].nbytes:
        return output
    return root[source]


def _takeovers(
    graph: Graph, root: Mapping[str, str], fixed: set[str], op: Op
) -> tuple[Takeover, ...]:
    pairs = set(definition(op).in_place_pairs(op, graph))
    found: dict[Takeover, None] = {}
    for source, target in sorted(pairs, key=lambda pair: (pair[1], pair[0])):
        if source >= len(op.inputs) or target >= len(op.outputs):
            continue
        name, output = op.inputs[source], op.outputs[target]
        if not name or not output or not graph[name].in_arena or not graph[output].in_arena:
            continue
        first = root[name]
        # The same bytes may come in by several inputs; each of them must allow the overwriting.
        ways = [i for i, n in enumerate(op.inputs) if n and root.get(n) == first]
        allowed = all((way, target) in pairs for way in ways)
        fits = graph[output].nbytes <= graph[name].nbytes
        if allowed and fits and root[output] == output and first not in fixed:
            found[Takeover(first, output)] = None
    return tuple(found)


def _malformed(code: str, message: str, op: Op) -> InternalError:
    return InternalError(code, "memory", message, where=op.name)
