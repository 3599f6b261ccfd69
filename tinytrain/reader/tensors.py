"""File tensors -> IR tensors, and what speaks against them.

In: `RawTensor`s. Out: `Tensor`s with unique names, roles, quantization and constant data; reasons
in words where a tensor cannot be taken. Source of the rules: TFLite's 8-bit quantization
specification. Must not know operators.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tinytrain.ir import Array, Role, Tensor
from tinytrain.ir.graph import ITEM_BYTES
from tinytrain.ir.names import Names
from tinytrain.numeric.quantize import INT8_MAX, INT8_MIN, Quant
from tinytrain.reader.file import RawModel, RawTensor
from tinytrain.reader.flatbuffer import corrupt
from tinytrain.reader.naming import clean

MAX_TENSOR_ELEMENTS = 1 << 24
# beyond these a product of three scales leaves float32
MIN_SCALE, MAX_SCALE = 1e-18, 1e18
MIN_BIAS_SCALE = float(np.finfo(np.float32).tiny)


class TensorTable:
    """The tensors of a model by index, made on demand."""

    def __init__(self, model: RawModel, taken: Iterable[str] = ()) -> None:
        self._raw = model.tensors
        self._inputs = frozenset(model.inputs)
        self._produced = frozenset(i for op in model.ops for i in op.outputs)
        self._payloads: dict[tuple[int, str], Array] = {}
        self._reasons: dict[int, tuple[str, ...]] = {}
        self._tensors: dict[int, Tensor] = {}
        names = Names(taken)
        # activations first: fused layers name their weights after the same operator
        ordered = sorted(self._raw, key=lambda raw: raw.data is not None)
        chosen = {raw.index: names.unique(clean(raw.name, f"t{raw.index}")) for raw in ordered}
        self.names = [chosen[raw.index] for raw in self._raw]

    def role(self, index: int) -> Role:
        """INPUT, CONST or ACTIVATION."""
        raw = self._raw[index]
        if index in self._inputs:
            return Role.INPUT
        if raw.data is not None:
            return Role.CONST
        # the shape tensor of a reshape to a scalar has no elements, hence no bytes
        if 0 in raw.shape and index not in self._produced:
            return Role.CONST
        return Role.ACTIVATION

    def dtype(self, index: int) -> str:
        """Lower-case name of the element type."""
        return self._raw[index].dtype

    def reasons(self, index: int) -> tuple[str, ...]:
        """Why no operator can take this tensor; empty if it is fine.

        Raises:
            InputError: ``corrupt-model`` where the data do not fit the shape.
        """
        if index not in self._reasons:
            found = tuple(self._judge(self._raw[index], self.role(index)))
            self._reasons[index] = found
            if not found:
                self._tensors[index] = self._make(index)
        return self._reasons[index]

    def tensor(self, index: int) -> Tensor:
        """The IR tensor, for an index without `reasons`."""
        if self.reasons(index):
            raise corrupt(self.reasons(index)[0], f"tensor {self.names[index]}")
        return self._tensors[index]

    def _judge(self, raw: RawTensor, role: Role) -> list[str]:
        reasons = [raw.oddity] if raw.oddity else []
        empty = 0 in raw.shape and role is not Role.CONST
        if any(n < 0 for n in raw.shape) or empty or self._is_dynamic(raw, role):
            reasons.append("dynamic or empty shape")
        elif math.prod(raw.shape) > MAX_TENSOR_ELEMENTS:
            reasons.append(f"more than {MAX_TENSOR_ELEMENTS} elements")
        if raw.dtype == "int8":
            reasons += _int8_reasons(raw, role)
        elif raw.dtype == "int32" and role is Role.CONST:
            reasons += _int32_reasons(raw)
        else:
            reasons.append(_dtype_reason(raw.dtype, role))
        return reasons

    def _is_dynamic(self, raw: RawTensor, role: Role) -> bool:
        """Whether an input's size beyond the batch was left open at conversion."""
        return role is Role.INPUT and any(n < 0 for n in raw.signature[1:])

    def _make(self, index: int) -> Tensor:
        raw, role = self._raw[index], self.role(index)
        data = self._data(raw) if role is Role.CONST else None
        return Tensor(
            self.names[index], raw.shape, raw.dtype, role, _quant(raw), data, source=index
        )

    def _data(self, raw: RawTensor) -> Array:
        """The constant's values; tensors of one buffer share them, so that a small file cannot
        ask for much memory."""
        payload = raw.data if raw.data is not None else b""
        expected = math.prod(raw.shape) * ITEM_BYTES[raw.dtype]
        if len(payload) != expected:
            raise corrupt(
                f"{len(payload)} bytes of data for a shape that takes {expected}",
                f"tensor {self.names[raw.index]}",
            )
        key = (raw.buffer, raw.dtype)
        if key not in self._payloads:
            stored = np.frombuffer(payload, np.dtype(raw.dtype).newbyteorder("<"))
            values = stored.astype(raw.dtype)
            values.flags.writeable = False
            self._payloads[key] = values
        return self._payloads[key].reshape(raw.shape)


def _dtype_reason(dtype: str, role: Role) -> str:
    if dtype == "uint8" and role is Role.INPUT:
        return "uint8 input, convert with inference_input_type = int8"
    return f"{dtype} {'constant' if role is Role.CONST else role.value}"


def _int8_reasons(raw: RawTensor, role: Role) -> list[str]:
    if not len(raw.scales):
        return ["no quantization parameters"]
    reasons = _scale_reasons(raw, MIN_SCALE, MAX_SCALE)
    if np.any(raw.zero_points < INT8_MIN) or np.any(raw.zero_points > INT8_MAX):
        reasons.append("a zero point outside of int8")
    if len(raw.scales) > 1:
        if role is not Role.CONST:
            reasons.append("per-channel quantization of an activation")
        if np.any(raw.zero_points != 0):
            reasons.append("per-channel zero points other than 0")
    return reasons


def _int32_reasons(raw: RawTensor) -> list[str]:
    reasons = _scale_reasons(raw, MIN_BIAS_SCALE, math.inf)
    if np.any(raw.zero_points != 0):
        reasons.append("an int32 zero point other than 0")
    return reasons


def _scale_reasons(raw: RawTensor, low: float, high: float) -> list[str]:
    count, reasons = len(raw.scales), []
    if not np.all(np.isfinite(raw.scales)) or np.any(raw.scales <= 0):
        reasons.append("a scale that is zero, negative or not a number")
    elif np.any(raw.scales < low) or np.any(raw.scales > high):
        reasons.append("a scale beyond what float32 arithmetic can take")
    if len(raw.zero_points) not in (0, 1, count):
        reasons.append(f"{len(raw.zero_points)} zero points for {count} scales")
    if count > 1:
        axis = _axis(raw)
        if axis is None or raw.shape[axis] != count:
            reasons.append(f"{count} scales that fit no dimension")
    return reasons


def _axis(raw: RawTensor) -> int | None:
    """The quantized dimension; converters write any number for a vector, which has but one."""
    if len(raw.shape) == 1:
        return 0
    return raw.axis if 0 <= raw.axis < len(raw.shape) else None


def _quant(raw: RawTensor) -> Quant | None:
    if not len(raw.scales):
        return None
    zero_point = int(raw.zero_points[0]) if len(raw.zero_points) else 0
    axis = _axis(raw) if len(raw.scales) > 1 else None
    return Quant(tuple(float(s) for s in raw.scales), zero_point, axis)
