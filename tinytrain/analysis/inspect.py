"""What `inspect` shows of a model.

In: a graph. Out: `Summary`, plain data. Must not know terminals.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tinytrain.analysis.cost import graph_cost
from tinytrain.ir import Graph, Op, Role, Tensor
from tinytrain.ops.base import definition


@dataclass(frozen=True)
class TensorInfo:
    """A border of the model. `float_name` names the float tensor that was cut off, if any."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None
    zero_point: int | None
    float_name: str = ""


@dataclass(frozen=True)
class InspectRow:
    """One operator. `quantization` describes output and weights in words."""

    index: int
    operator: str
    name: str
    output_shape: tuple[int, ...]
    macs: int
    weight_bytes: int
    activation_bytes: int
    quantization: str


@dataclass(frozen=True)
class Summary:
    """A model at a glance; bytes count each tensor once, activations without sharing memory."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    rows: tuple[InspectRow, ...]
    macs: int
    weight_bytes: int
    activation_bytes: int
    largest_activation_bytes: int
    parameters: int

    def as_dict(self) -> dict[str, Any]:
        """Nested dicts and tuples, for ``--json``."""
        return asdict(self)


def summarize(graph: Graph) -> Summary:
    """The summary of a graph, one row an operator."""
    cost = graph_cost(graph)
    rows = tuple(
        InspectRow(
            index,
            definition(op).tflite or op.kind.upper(),
            op.name,
            graph[op.outputs[0]].shape if op.outputs else (),
            item.macs,
            item.weight_bytes,
            item.activation_bytes,
            quantization_text(op, graph),
        )
        for index, (op, item) in enumerate(zip(graph.ops, cost.ops, strict=True))
    )
    float_input = graph.notes.get("float_input", "")
    float_output = graph.notes.get("float_output", "")
    stored = [t for t in graph.tensors.values() if t.role in (Role.CONST, Role.STATE)]
    return Summary(
        graph.name,
        tuple(_info(graph[name], float_input) for name in graph.inputs),
        tuple(_info(graph[name], float_output) for name in graph.outputs),
        rows,
        macs=cost.macs(),
        weight_bytes=cost.const_bytes + cost.state_bytes,
        activation_bytes=cost.activation_bytes,
        largest_activation_bytes=max(
            (t.nbytes for t in graph.tensors.values() if t.in_arena), default=0
        ),
        parameters=sum(t.size for t in stored),
    )


def quantization_text(op: Op, graph: Graph) -> str:
    """E.g. ``0.0235 (z -128), weights 64 x 0.0012..0.013``."""
    parts = []
    if op.outputs and graph[op.outputs[0]].quant is not None:
        parts.append(_quant_text(graph[op.outputs[0]]))
    for name in op.inputs:
        if name and graph[name].role is not Role.ACTIVATION and graph[name].dtype == "int8":
            if graph[name].role is not Role.INPUT and graph[name].quant is not None:
                parts.append(f"weights {_quant_text(graph[name])}")
    return ", ".join(parts)


def _quant_text(tensor: Tensor) -> str:
    quant = tensor.q
    if quant.per_channel:
        return f"{len(quant.scale)} x {min(quant.scale):.3g}..{max(quant.scale):.3g}"
    zero_point = f" (z {quant.zero_point})" if quant.zero_point else ""
    return f"{quant.scale0:.3g}{zero_point}"


def _info(tensor: Tensor, float_name: str) -> TensorInfo:
    quant = tensor.quant
    return TensorInfo(
        tensor.name,
        tensor.shape,
        tensor.dtype,
        quant.scale0 if quant else None,
        quant.zero_point if quant else None,
        float_name,
    )
