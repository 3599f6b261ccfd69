"""`.tflite` -> Graph: the only door for models of users.

In: a path or bytes. Out: a Graph of supported operators, or an error that says all that is in the
way. Must not know single operators: their definitions parse, judge and give shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tinytrain.analysis.support import WHOLE_MODEL, SupportRow, op_rows
from tinytrain.errors import InputError, TinytrainError
from tinytrain.ir import Graph, Op, Role, Tensor
from tinytrain.ops.base import definition, tflite_definitions
from tinytrain.reader.file import RawModel, RawOp, parse_file, read_bytes
from tinytrain.reader.flatbuffer import corrupt
from tinytrain.reader.naming import clean
from tinytrain.reader.refusal import FLOAT_REASON, HYBRID_REASON, UnsupportedError
from tinytrain.reader.structure import check_structure, strip_float_borders
from tinytrain.reader.tensors import TensorTable

T = TypeVar("T")

_UNKNOWN = {"CUSTOM": "custom operator"} | dict.fromkeys(
    ("IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_WHILE"), "control flow"
)
_MODEL = "(model)"


@dataclass(frozen=True, eq=False)
class Node:
    """What an operator's definition sees of the file (`ops.base.TfliteOp`)."""

    raw: RawOp
    inputs: Sequence[Tensor | None]
    outputs: Sequence[Tensor]

    def options(self, table: Any) -> Any:
        """The builtin options as an instance of the schema class `table`."""
        return self.raw.options(table)


def read(source: Path | str | bytes, name: str | None = None) -> Graph:
    """Read a model.

    Args:
        source: path of a `.tflite` file, or its bytes.
        name: name of the graph; the file's stem (or "model") unless given.

    Returns:
        A graph of int8 operators. The float32 side of its borders is cut off; `notes` then has
        ``float_input`` or ``float_output`` with the float tensor's name.

    Raises:
        UnsupportedError: something is not supported; its `rows` hold every reason.
        InputError: the file is missing, not a model, or broken.
    """
    if isinstance(source, bytes):
        data, label = source, ""
    else:
        data, label = read_bytes(Path(source)), Path(source).stem
    return _build(parse_file(data), clean(name or label, "model"))


def _build(file_model: RawModel, name: str) -> Graph:
    check_structure(file_model)
    borders = strip_float_borders(file_model)
    model = borders.model
    known = tflite_definitions()
    op_names = [f"{_kind(op)}_{op.index}" for op in model.ops]
    table = TensorTable(model, taken=op_names)
    rows = list(_model_rows(model, table))
    nodes: list[Node] = []
    for raw in model.ops:
        _check_count(raw)
        refused = list(_file_rows(raw, table, known))
        rows += refused
        if not refused:
            nodes.append(_node(raw, table))
    if not model.ops and not rows:
        raise InputError("empty-model", "reader", "the model has no int8 operators")
    ops = [_guard(partial(_op, node), node.raw) for node in nodes]
    graph = _graph(name, model, table, nodes, ops, borders.notes)
    for node, op in zip(nodes, ops, strict=True):
        found = _guard(partial(op_rows, node.raw.index, op, graph), node.raw)
        rows += [row for row in found if not row.supported]
    if rows:
        raise UnsupportedError(rows, where=name)
    for node, op in zip(nodes, ops, strict=True):
        _check_shapes(node, op, graph)
    return graph


def _kind(raw: RawOp) -> str:
    known = tflite_definitions().get(raw.operator)
    return known.kind if known else raw.operator.lower()


def _model_rows(model: RawModel, table: TensorTable) -> Iterator[SupportRow]:
    """What speaks against the model as a whole."""
    if model.subgraphs != 1:
        reason = f"{model.subgraphs} subgraphs, only one is supported"
        yield SupportRow(WHOLE_MODEL, _MODEL, reason)
    if len(model.inputs) != 1:
        yield SupportRow(WHOLE_MODEL, _MODEL, f"{len(model.inputs)} inputs, exactly one is needed")
    for index in model.inputs:
        label = table.names[index]
        shape = model.tensors[index].shape
        if not shape or shape[0] != 1:
            batch = shape[0] if shape else "none"
            yield SupportRow(WHOLE_MODEL, _MODEL, f"batch of input {label} is {batch}, not 1")
        if table.dtype(index) != "float32":
            for reason in table.reasons(index):
                yield SupportRow(WHOLE_MODEL, _MODEL, f"input {label}: {reason}")
    if not model.outputs:
        yield SupportRow(WHOLE_MODEL, _MODEL, "the model has no output")
    for index in model.outputs:
        if table.role(index) is not Role.ACTIVATION:
            reason = f"output {table.names[index]} is not computed by any operator"
            yield SupportRow(WHOLE_MODEL, _MODEL, reason)


def _file_rows(raw: RawOp, table: TensorTable, known: Mapping[str, object]) -> Iterator[SupportRow]:
    """What speaks against an operator before its definition is asked."""
    used = [i for i in (*raw.inputs, *raw.outputs) if i >= 0]
    dtypes = {table.dtype(i) for i in used}
    operator = f"CUSTOM {raw.custom[:64]!r}" if raw.operator == "CUSTOM" else raw.operator
    if raw.operator not in known:
        reason = _UNKNOWN.get(raw.operator, "not among the supported operators")
        yield SupportRow(raw.index, operator, reason)
    if "float32" in dtypes:
        weights = [i for i in raw.inputs if i >= 0 and table.role(i) is Role.CONST]
        hybrid = any(table.dtype(i) in ("int8", "uint8") for i in weights)
        yield SupportRow(raw.index, operator, HYBRID_REASON if hybrid else FLOAT_REASON)
    if raw.operator not in known:
        return
    reasons: dict[str, list[str]] = {}
    for index in dict.fromkeys(used):
        if table.dtype(index) != "float32":
            for reason in table.reasons(index):
                reasons.setdefault(reason, []).append(table.names[index])
    for reason, names in reasons.items():
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        yield SupportRow(raw.index, operator, f"{reason} ({shown})")


def _check_count(raw: RawOp) -> None:
    """Refuse an operator with inputs or outputs that its definition does not know."""
    rules = tflite_definitions().get(raw.operator)
    if rules is None:
        return
    fewest, most = rules.tflite_inputs
    given = len(raw.inputs)
    if not fewest <= given <= most or any(i < 0 for i in raw.inputs[:fewest]):
        missing = ", some absent" if any(i < 0 for i in raw.inputs[:fewest]) else ""
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        message = f"the operator has {given} inputs{missing}; it takes {wanted}"
        raise corrupt(message, f"operator {raw.index}, {raw.operator}")
    if len(raw.outputs) != 1:
        message = f"the operator has {len(raw.outputs)} outputs; it gives one"
        raise corrupt(message, f"operator {raw.index}, {raw.operator}")


def _node(raw: RawOp, table: TensorTable) -> Node:
    inputs = tuple(table.tensor(i) if i >= 0 else None for i in raw.inputs)
    return Node(raw, inputs, tuple(table.tensor(i) for i in raw.outputs))


def _op(node: Node) -> Op:
    rules = tflite_definitions()[node.raw.operator]
    attrs = rules.parse(node)
    operands = tuple(t.name if t is not None else "" for t in rules.operands(node))
    outputs = tuple(t.name for t in node.outputs)
    return Op(rules.kind, f"{rules.kind}_{node.raw.index}", operands, outputs, attrs)


def _graph(
    name: str,
    model: RawModel,
    table: TensorTable,
    nodes: Iterable[Node],
    ops: Sequence[Op],
    notes: Mapping[str, str],
) -> Graph:
    """The graph of the accepted operators, with the tensors that they use."""
    tensors: dict[str, Tensor] = {}
    for index in (*model.inputs, *model.outputs):
        if not table.reasons(index):
            tensors[table.names[index]] = table.tensor(index)
    for node in nodes:
        tensors |= {t.name: t for t in (*node.inputs, *node.outputs) if t is not None}
    used = {n for op in ops for n in (*op.inputs, *op.outputs)}
    borders = {table.names[i] for i in (*model.inputs, *model.outputs)}
    kept = {n: t for n, t in tensors.items() if n in used or n in borders}
    inputs = tuple(table.names[i] for i in model.inputs)
    outputs = tuple(table.names[i] for i in model.outputs)
    return Graph(name, kept, tuple(ops), inputs, outputs, dict(notes))


def _check_shapes(node: Node, op: Op, graph: Graph) -> None:
    expected = _guard(partial(definition(op).shape, op, graph), node.raw)
    stored = tuple(t.shape for t in node.outputs)
    if tuple(tuple(s) for s in expected) != stored:
        raise InputError(
            "shape-mismatch",
            "reader",
            f"the file says output shape {_show(stored)}, the operator gives {_show(expected)}",
            where=f"operator {node.raw.index}, {node.raw.operator}",
            hint="the file is damaged, or was converted with other sizes than it holds",
        )


def _show(shapes: Iterable[Iterable[int]]) -> str:
    return ", ".join("x".join(map(str, shape)) for shape in shapes)


def _guard(call: Callable[[], T], raw: RawOp) -> T:
    """Run a rule of a definition; operands that it cannot even look at are the file's fault."""
    try:
        return call()
    except TinytrainError:
        raise
    except Exception as error:
        raise corrupt(
            f"the operator's tensors or options do not fit together ({type(error).__name__})",
            f"operator {raw.index}, {raw.operator}",
        ) from error
