"""Serialize a list of tensors and operators as a `.tflite` flatbuffer.

In: `TensorSpec`s and `OpSpec`s, plain data. Out: the file's bytes, equal for equal input.
Must not know: what an operator means. Shapes, scales and options are written as they are given, so
that a test can also write a wrong model; `tflite_builder` is the layer that fills them in sensibly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite

Array = npt.NDArray[Any]

SCHEMA_VERSION = 3
FILE_IDENTIFIER = b"TFL3"
BUFFER_ALIGNMENT_BYTES = 16

_DTYPE_CODES = {
    "float32": tflite.TensorType.FLOAT32,
    "int32": tflite.TensorType.INT32,
    "uint8": tflite.TensorType.UINT8,
    "int64": tflite.TensorType.INT64,
    "bool": tflite.TensorType.BOOL,
    "int16": tflite.TensorType.INT16,
    "int8": tflite.TensorType.INT8,
}


@dataclass(frozen=True)
class QuantSpec:
    """Affine quantization: one scale and zero point, or one each per slice along `dimension`."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int = 0


@dataclass(frozen=True, eq=False)
class TensorSpec:
    """One tensor; `data` (of any dtype NumPy knows by `dtype`'s name) makes it a constant."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    quant: QuantSpec | None = None
    data: Array | None = None


@dataclass(frozen=True)
class OpSpec:
    """One operator; input -1 is absent, `options` are fields of the schema's `options_table`."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    version: int = 1
    options_table: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def write_model(
    tensors: Sequence[TensorSpec],
    ops: Sequence[OpSpec],
    inputs: Sequence[int],
    outputs: Sequence[int],
    description: str = "",
) -> bytes:
    """Return the bytes of a one-subgraph model; tensor indices are positions in `tensors`."""
    fb = flatbuffers.Builder(1024)
    payloads = [t.data for t in tensors if t.data is not None]
    buffers = [_buffer(fb, None)] + [_buffer(fb, data) for data in payloads]
    codes = sorted({(op.kind, op.version) for op in ops})
    code_offsets = [_operator_code(fb, kind, version) for kind, version in codes]
    next_buffer = 1
    tensor_offsets = []
    for tensor in tensors:
        buffer = 0
        if tensor.data is not None:
            buffer, next_buffer = next_buffer, next_buffer + 1
        tensor_offsets.append(_tensor(fb, tensor, buffer))
    op_offsets = [_operator(fb, op, codes.index((op.kind, op.version))) for op in ops]
    subgraph = _table(
        fb,
        "SubGraph",
        Tensors=_offsets(fb, tensor_offsets),
        Inputs=_numbers(fb, inputs, np.int32),
        Outputs=_numbers(fb, outputs, np.int32),
        Operators=_offsets(fb, op_offsets),
        Name=fb.CreateString("main"),
    )
    model = _table(
        fb,
        "Model",
        Version=SCHEMA_VERSION,
        OperatorCodes=_offsets(fb, code_offsets),
        Subgraphs=_offsets(fb, [subgraph]),
        Description=fb.CreateString(description),
        Buffers=_offsets(fb, buffers),
    )
    fb.Finish(model, file_identifier=FILE_IDENTIFIER)
    return bytes(fb.Output())


def _table(fb: Any, table: str, **fields: Any) -> int:
    """Write one schema table; nested vectors and strings must be offsets already."""
    getattr(tflite, f"{table}Start")(fb)
    for name, value in fields.items():
        getattr(tflite, f"{table}Add{name}")(fb, value)
    return int(getattr(tflite, f"{table}End")(fb))


def _numbers(fb: Any, values: Sequence[float] | Array, dtype: Any) -> int:
    return int(fb.CreateNumpyVector(np.asarray(values, dtype=dtype).reshape(-1)))


def _offsets(fb: Any, offsets: Sequence[int]) -> int:
    fb.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        fb.PrependUOffsetTRelative(offset)
    return int(fb.EndVector())


def _buffer(fb: Any, data: Array | None) -> int:
    if data is None:
        return _table(fb, "Buffer")
    # Kernels read constants in place, so the payload itself must be aligned, not its length word.
    payload = np.ascontiguousarray(data).tobytes()
    fb.StartVector(1, len(payload), BUFFER_ALIGNMENT_BYTES)
    fb.head -= len(payload)
    fb.Bytes[fb.head : fb.head + len(payload)] = payload
    return _table(fb, "Buffer", Data=int(fb.EndVector()))


def _operator_code(fb: Any, kind: str, version: int) -> int:
    code = int(getattr(tflite.BuiltinOperator, kind))
    # Codes above 127 do not fit the old one-byte field, which then holds this placeholder.
    placeholder = int(tflite.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES)
    return _table(
        fb,
        "OperatorCode",
        DeprecatedBuiltinCode=min(code, placeholder),
        Version=version,
        BuiltinCode=code,
    )


def _tensor(fb: Any, tensor: TensorSpec, buffer: int) -> int:
    fields: dict[str, Any] = {
        "Shape": _numbers(fb, tensor.shape, np.int32),
        "Type": _DTYPE_CODES[tensor.dtype],
        "Buffer": buffer,
        "Name": fb.CreateString(tensor.name),
    }
    if tensor.quant is not None:
        fields["Quantization"] = _table(
            fb,
            "QuantizationParameters",
            Scale=_numbers(fb, tensor.quant.scales, np.float32),
            ZeroPoint=_numbers(fb, tensor.quant.zero_points, np.int64),
            QuantizedDimension=tensor.quant.dimension,
        )
    return _table(fb, "Tensor", **fields)


def _operator(fb: Any, op: OpSpec, code_index: int) -> int:
    fields: dict[str, Any] = {
        "OpcodeIndex": code_index,
        "Inputs": _numbers(fb, op.inputs, np.int32),
        "Outputs": _numbers(fb, op.outputs, np.int32),
    }
    if op.options_table is not None:
        options = {
            name: _numbers(fb, value, np.int32) if isinstance(value, tuple) else value
            for name, value in op.options.items()
        }
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, op.options_table)
        fields["BuiltinOptions"] = _table(fb, op.options_table, **options)
    return _table(fb, "Operator", **fields)
