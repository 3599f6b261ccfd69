"""Tensor, Op, Graph: what every stage hands to the next. Frozen; a pass returns a new graph.

In: nothing. Out: the data types. Must not know what an operator means (that is `ops/`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy.typing as npt

from tinytrain.errors import InternalError
from tinytrain.numeric.quantize import Quant

Array = npt.NDArray[Any]
Attr = int | float | str | bool | tuple[int, ...] | tuple[float, ...] | None

# `Op` has accessors named after the builtin types
_Int: TypeAlias = int
_Float: TypeAlias = float
_Str: TypeAlias = str

ITEM_BYTES = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "float32": 4}


class Role(Enum):
    """Where a tensor lives."""

    INPUT = "input"  # the sample; in the arena
    TARGET = "target"  # the label or target vector; the caller's memory
    ACTIVATION = "activation"  # arena
    CONST = "const"  # flash
    STATE = "state"  # RAM, kept between steps and saved (trained weights, error ranges)
    BUFFER = "buffer"  # RAM, kept between steps, not saved (gradient accumulators)


class Phase(Enum):
    """Which part of a training step an operator belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    APPLY = "apply"  # once a batch, only where gradients are accumulated


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named array. `data` is the value of a const, or the initial value of a state."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role = Role.ACTIVATION
    quant: Quant | None = None
    data: Array | None = None
    source: int | None = None  # tensor index in the tflite file

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.size * ITEM_BYTES[self.dtype]

    @property
    def in_arena(self) -> bool:
        """Whether the arena holds it."""
        return self.role in (Role.INPUT, Role.ACTIVATION)

    @property
    def q(self) -> Quant:
        """The quantization, which must be there."""
        if self.quant is None:
            raise InternalError("no-quantization", "ir", f"tensor {self.name} is not quantized")
        return self.quant


@dataclass(frozen=True)
class Op:
    """One operator: `kind` names its definition in `ops/`. A state written in place is listed
    among the inputs and the outputs. An absent optional input is "". `body` is the graph that an
    operator made of others stands for; its borders have the names of the operator's own."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    phase: Phase = Phase.FORWARD
    body: Graph | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    def int(self, key: _Str) -> _Int:
        """Attribute `key`, an integer."""
        value = self.attrs[key]
        assert isinstance(value, _Int)
        return value

    def str(self, key: _Str) -> _Str:
        """Attribute `key`, a string."""
        value = self.attrs[key]
        assert isinstance(value, _Str)
        return value

    def float(self, key: _Str) -> _Float:
        """Attribute `key`, a number."""
        value = self.attrs[key]
        assert isinstance(value, (_Int, _Float))
        return value

    def ints(self, key: _Str) -> tuple[_Int, ...]:
        """Attribute `key`, a tuple of integers."""
        value = self.attrs[key]
        assert isinstance(value, tuple)
        return tuple(_Int(v) for v in value)

    def floats(self, key: _Str) -> tuple[_Float, ...]:
        """Attribute `key`, a tuple of numbers."""
        value = self.attrs[key]
        assert isinstance(value, tuple)
        return tuple(value)


@dataclass(frozen=True, eq=False)
class Graph:
    """Operators in execution order over named tensors."""

    name: str
    tensors: Mapping[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    @cached_property
    def producers(self) -> Mapping[str, Op]:
        """Tensor name -> the operator that makes it (activations only)."""
        return {
            out: op
            for op in self.ops
            for out in op.outputs
            if self.tensors[out].role is Role.ACTIVATION
        }

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Op, ...]]:
        """Tensor name -> the operators that read it."""
        readers: dict[str, list[Op]] = {}
        for op in self.ops:
            for name in dict.fromkeys(op.inputs):
                if name:
                    readers.setdefault(name, []).append(op)
        return {name: tuple(ops) for name, ops in readers.items()}

    def fresh_name(self, name: str) -> str:
        """`name`, or with the first number behind it that makes it new among the tensors."""
        fresh, count = name, 1
        while fresh in self.tensors:
            count += 1
            fresh = f"{name}_{count}"
        return fresh

    def phase(self, *phases: Phase) -> tuple[Op, ...]:
        """The operators of these phases, in order."""
        return tuple(op for op in self.ops if op.phase in phases)

    def with_ops(self, ops: Iterable[Op], tensors: Iterable[Tensor] = ()) -> Graph:
        """A copy with other operators and further (or replaced) tensors; unused ones go."""
        ops = tuple(ops)
        table = dict(self.tensors) | {t.name: t for t in tensors}
        used = set(self.inputs) | set(self.outputs)
        for op in ops:
            used.update(n for n in (*op.inputs, *op.outputs) if n)
        kept = {name: t for name, t in table.items() if name in used}
        return replace(self, ops=ops, tensors=kept)

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> Graph:
        """A copy with each tensor replaced by `change(tensor)` (the name stays)."""
        return replace(self, tensors={n: change(t) for n, t in self.tensors.items()})


def format_graph(graph: Graph) -> str:
    """The graph as text, one line an operator: stable, for tests and people."""

    def show(name: str) -> str:
        if not name:
            return "-"
        t = graph[name]
        place = "" if t.in_arena else f"@{t.role.value}"
        return f"{name}:{t.dtype}[{'x'.join(map(str, t.shape))}]{place}"

    lines = [f"graph {graph.name}({', '.join(map(show, graph.inputs))})"]
    for op in graph.ops:
        attrs = ", ".join(f"{k}={_short(v)}" for k, v in sorted(op.attrs.items()))
        lines.append(
            f"  {op.phase.value[0]} {', '.join(map(show, op.outputs))} = "
            f"{op.kind}({', '.join(map(show, op.inputs))}){' {' + attrs + '}' if attrs else ''}"
        )
        if op.body is not None:
            lines += ["  " + line for line in format_graph(op.body).splitlines()[1:-1]]
    lines.append(f"  return {', '.join(map(show, graph.outputs))}")
    return "\n".join(lines) + "\n"


def _short(value: Attr) -> str:
    if isinstance(value, tuple) and len(value) > 4:
        return f"({value[0]}, ... {len(value)})"
    return str(value)
