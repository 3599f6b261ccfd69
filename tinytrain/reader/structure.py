"""Soundness of the graph in a file, and its float borders.

In: `RawModel`. Out: the same model without QUANTIZE at a float input and DEQUANTIZE at a float
output. Must not know quantization rules or the IR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tinytrain.reader.file import RawModel, RawOp
from tinytrain.reader.flatbuffer import corrupt


def check_structure(model: RawModel) -> None:
    """Check indices, order of execution, and that each tensor is made once.

    Raises:
        InputError: ``corrupt-model``.
    """
    count = len(model.tensors)
    for index in (*model.inputs, *model.outputs):
        if not 0 <= index < count:
            raise corrupt(f"tensor {index} does not exist", "inputs and outputs of the model")
    if len(set(model.inputs)) != len(model.inputs):
        raise corrupt("an input is listed twice", "inputs of the model")
    made_outside = {
        raw.index for raw in model.tensors if raw.data is not None or raw.oddity or 0 in raw.shape
    }
    if any(model.tensors[i].data is not None for i in model.inputs):
        raise corrupt("an input is a constant", "inputs of the model")
    defined = made_outside | set(model.inputs)
    produced = {raw.index for raw in model.tensors if raw.data is not None} | set(model.inputs)
    for op in model.ops:
        where = f"operator {op.index}, {op.operator}"
        for index in op.inputs:
            if index != -1 and not 0 <= index < count:
                raise corrupt(f"tensor {index} does not exist", where)
            if index != -1 and index not in defined:
                raise corrupt(f"tensor {index} is used before it is made", where)
        for index in op.outputs:
            if not 0 <= index < count:
                raise corrupt(f"tensor {index} does not exist", where)
            if index in produced:
                raise corrupt(f"tensor {index} is made twice", where)
            produced.add(index)
            defined.add(index)
    for index in model.outputs:
        if index not in defined:
            raise corrupt(f"tensor {index} is never made", "outputs of the model")


@dataclass(frozen=True, eq=False)
class Borders:
    """A model with int8 borders, and the names of the float tensors that were cut off."""

    model: RawModel
    notes: Mapping[str, str]


def strip_float_borders(model: RawModel) -> Borders:
    """Cut QUANTIZE at a float32 input and DEQUANTIZE at a float32 output.

    The int8 tensor takes the place of the float one among the model's inputs or outputs; its scale
    and zero point say how a caller converts. Any other float tensor stays, for a later refusal.
    """
    inputs, outputs = list(model.inputs), list(model.outputs)
    removed: set[int] = set()
    notes: dict[str, str] = {}
    for op in model.ops:
        if _converts(model, op, "QUANTIZE", "float32", "int8") and op.inputs[0] in inputs:
            inputs[inputs.index(op.inputs[0])] = op.outputs[0]
            notes.setdefault("float_input", model.tensors[op.inputs[0]].name)
            removed.add(op.index)
    read = {i for op in model.ops for i in op.inputs}
    for op in model.ops:
        if not _converts(model, op, "DEQUANTIZE", "int8", "float32"):
            continue
        if op.outputs[0] in outputs and op.outputs[0] not in read:
            outputs = [op.inputs[0] if i == op.outputs[0] else i for i in outputs]
            notes.setdefault("float_output", model.tensors[op.outputs[0]].name)
            removed.add(op.index)
    ops = tuple(op for op in model.ops if op.index not in removed)
    unique_outputs = tuple(dict.fromkeys(outputs))
    return Borders(replace(model, ops=ops, inputs=tuple(inputs), outputs=unique_outputs), notes)


def _converts(model: RawModel, op: RawOp, operator: str, source: str, target: str) -> bool:
    if op.operator != operator or len(op.inputs) != 1 or len(op.outputs) != 1 or op.inputs[0] < 0:
        return False
    before, after = model.tensors[op.inputs[0]], model.tensors[op.outputs[0]]
    if (before.dtype, after.dtype) != (source, target):
        return False
    if before.shape != after.shape:
        raise corrupt(f"{operator} changes the shape", f"operator {op.index}")
    return True
