"""What is supported: the rows of the support table, and the page that lists the rules.

In: a graph, or the registry of operator definitions. Out: data, and Markdown text made from the
docstrings of the rules. Must not know files or terminals.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass

from tinytrain.ir import Graph, Op
from tinytrain.ops.base import OpDef, definition, tflite_definitions

WHOLE_MODEL = -1


MAX_DIMENSION = 65535


@dataclass(frozen=True)
class SupportRow:
    """One line of the support table.

    Attributes:
        index: position of the operator in the model, WHOLE_MODEL for what concerns all of it.
        operator: TFLite's name of the operator, e.g. ``CONV_2D``.
        reason: why it is refused; "" if it is supported.
    """

    index: int
    operator: str
    reason: str = ""

    @property
    def supported(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reason


@dataclass(frozen=True)
class SupportedOperator:
    """One operator that can be read from a file, and the rules for it in words."""

    operator: str
    kind: str
    rules: str
    trainable: bool
    border_only: bool


def op_rows(index: int, op: Op, graph: Graph) -> tuple[SupportRow, ...]:
    """The rows of one operator: one a problem, or a single one without a reason."""
    rules = definition(op)
    name = rules.tflite or op.kind
    reasons = dict.fromkeys([*rules.problems(op, graph), *_size_problems(op, graph)]) or {"": None}
    return tuple(SupportRow(index, name, reason) for reason in reasons)


def _size_problems(op: Op, graph: Graph) -> list[str]:
    """The kernels hold sizes in 16 bits."""
    largest = max((d for n in (*op.inputs, *op.outputs) if n for d in graph[n].shape), default=0)
    return [f"a dimension of {largest}, {MAX_DIMENSION} is the most"] * (largest > MAX_DIMENSION)


def support_rows(graph: Graph, ops: Iterable[Op] | None = None) -> tuple[SupportRow, ...]:
    """The support table of a graph's operators (all of them unless `ops` is given)."""
    chosen = graph.ops if ops is None else tuple(ops)
    return tuple(row for i, op in enumerate(chosen) for row in op_rows(i, op, graph))


def supported_operators() -> tuple[SupportedOperator, ...]:
    """Every operator that the registry reads from files, sorted by name."""
    found = [
        SupportedOperator(
            name,
            rules.kind,
            _rules_text(rules),
            type(rules).grad is not OpDef.grad,
            rules.border_only,
        )
        for name, rules in tflite_definitions().items()
    ]
    return tuple(sorted(found, key=lambda item: item.operator))


def supported_page() -> str:
    """The page of supported operators, Markdown; equal for an equal registry."""
    lines = [
        "# Supported operators",
        "",
        "Made from the operator definitions; do not edit by hand.",
        "",
        "A model must be a full-integer int8 one: int8 activations with one scale and zero point",
        "a tensor, int8 weights with one scale or one an output channel, int32 biases, batch 1,",
        "one graph. A float32 input or output behind QUANTIZE or DEQUANTIZE is cut off at the int8",
        "side.",
        "",
        "| operator | forward | backward |",
        "|---|---|---|",
    ]
    operators = supported_operators()
    for o in operators:
        forward = "at an output, cut off" if o.border_only else "yes"
        backward = "not needed" if o.border_only else "yes" if o.trainable else "no"
        lines.append(f"| {o.operator} | {forward} | {backward} |")
    for item in operators:
        lines += ["", f"## {item.operator}", "", item.rules or "No further conditions."]
    return "\n".join(lines) + "\n"


def _rules_text(rules: OpDef) -> str:
    """The docstring of the nearest `problems` that says something of its own."""
    for owner in type(rules).__mro__:
        method = vars(owner).get("problems")
        if owner is OpDef:
            break
        if method is not None and method.__doc__:
            return inspect.cleandoc(method.__doc__)
    return ""
