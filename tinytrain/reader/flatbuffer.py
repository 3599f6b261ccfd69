"""Bounds check of a `.tflite` file before anything reads it.

The Python flatbuffers package follows any offset it finds, backwards and beyond the end. This
module walks the tables that the reader uses and makes sure that each offset, vector and string
lies inside the file, and that no count is absurd. Depth is bounded by the schema, work by a budget
that also holds where many references share one table.

In: the bytes of a file. Out: nothing, or InputError ``corrupt-model``. Must not know what the
fields mean; slots are those of the public tflite schema.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tinytrain.errors import InputError

MAX_FILE_BYTES = 1 << 26
MAX_OPERATORS = 10_000
MAX_TENSORS = 20_000
MAX_SUBGRAPHS = 1_000
MAX_OPERANDS = 4_096
MAX_RANK = 8
MAX_OPTIONS = 32
MAX_CHANNELS = 1 << 16
MAX_NAME_BYTES = 1 << 16
MAX_ELEMENTS = 1 << 22  # all vectors together, buffers apart
TABLE_ELEMENTS = 16  # what one table counts for: it costs that much more time

IDENTIFIER = b"TFL3"


@dataclass(frozen=True)
class Field:
    """One field of a table: a scalar, or an offset to a vector, a table or a vector of tables."""

    size: int = 0  # bytes of the scalar, or of one element of the vector
    limit: int = 0  # most elements of the vector
    vector: bool = False
    table: str = ""  # the table, or that of each element

    @property
    def is_scalar(self) -> bool:
        """Whether the value lies in the table itself."""
        return not self.vector and not self.table


def _scalar(size: int) -> Field:
    return Field(size)


def _vector(size: int, limit: int) -> Field:
    return Field(size, limit, vector=True)


def _tables(table: str, limit: int) -> Field:
    return Field(4, limit, vector=True, table=table)


_INDICES = _vector(4, MAX_OPERANDS)

TABLES: Mapping[str, Mapping[int, Field]] = {
    "Model": {
        0: _scalar(4),
        1: _tables("OperatorCode", MAX_OPERATORS),
        2: _tables("SubGraph", MAX_SUBGRAPHS),
        4: _tables("Buffer", 2 * MAX_TENSORS),
    },
    "OperatorCode": {0: _scalar(1), 1: _vector(1, MAX_NAME_BYTES), 2: _scalar(4), 3: _scalar(4)},
    "SubGraph": {
        0: _tables("Tensor", MAX_TENSORS),
        1: _INDICES,
        2: _INDICES,
        3: _tables("Operator", MAX_OPERATORS),
    },
    "Tensor": {
        0: _vector(4, MAX_RANK),
        1: _scalar(1),
        2: _scalar(4),
        3: _vector(1, MAX_NAME_BYTES),
        4: Field(table="QuantizationParameters"),
        5: _scalar(1),
        6: Field(table="Opaque"),
        7: _vector(4, MAX_RANK),
    },
    "QuantizationParameters": {
        2: _vector(4, MAX_CHANNELS),
        3: _vector(8, MAX_CHANNELS),
        4: _scalar(1),
        6: _scalar(4),
    },
    "Operator": {
        0: _scalar(4),
        1: _INDICES,
        2: _INDICES,
        3: _scalar(1),
        4: Field(table="Opaque"),
        11: _scalar(1),
    },
    "Buffer": {0: _vector(1, MAX_FILE_BYTES), 1: _scalar(8), 2: _scalar(8)},
    "Opaque": {},
    # option tables with more than scalars; `check_options` looks here by class name
    "ReshapeOptions": {0: _vector(4, MAX_RANK)},
}


def corrupt(message: str, where: str = "") -> InputError:
    """The error for a file whose structure is broken."""
    return InputError(
        "corrupt-model",
        "reader",
        message,
        where=where,
        hint="the file is damaged or was not written by a TFLite converter; export it again",
    )


class BoundsCheck:
    """Checks of one file; every method raises InputError where something is out of bounds."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._elements = 0

    def check_model(self) -> None:
        """Check identifier, root table and all tables that the reader reads."""
        if len(self._data) > MAX_FILE_BYTES:
            raise InputError(
                "model-too-large",
                "reader",
                f"the file has {len(self._data)} bytes, the limit is {MAX_FILE_BYTES}",
                hint="a model for a microcontroller is far smaller than that",
            )
        if len(self._data) < 8 or self._data[4:8] != IDENTIFIER:
            raise InputError(
                "not-a-tflite-model",
                "reader",
                "the file does not carry the identifier of a .tflite model (TFL3)",
                hint="give a .tflite file made by the TFLite converter",
            )
        self._table(self._number("<I", 0), "Model", "model")

    def check_options(self, position: int, table: str, where: str) -> None:
        """Check an operator's option table, given the name of its schema class."""
        self._table(position, table if table in TABLES else "Opaque", where)
        vtable = position - self._number("<i", position)
        slots = (self._number("<H", vtable) - 4) // 2
        for slot in range(min(slots, MAX_OPTIONS)):
            if self._number("<H", vtable + 4 + 2 * slot) >= self._number("<H", vtable + 2):
                raise corrupt("an option lies outside of its table", where)

    def _number(self, form: str, position: int) -> int:
        if position < 0 or position + struct.calcsize(form) > len(self._data):
            raise corrupt(f"offset {position} lies outside of the file")
        return int(struct.unpack_from(form, self._data, position)[0])

    def _table(self, position: int, table: str, where: str) -> None:
        vtable = position - self._number("<i", position)
        vtable_bytes = self._number("<H", vtable)
        table_bytes = self._number("<H", vtable + 2)
        if vtable_bytes < 4 or vtable_bytes % 2 or vtable + vtable_bytes > len(self._data):
            raise corrupt("a table has a broken vtable", where)
        if table_bytes < 4 or position + table_bytes > len(self._data):
            raise corrupt("a table reaches beyond the end of the file", where)
        for slot, field in TABLES[table].items():
            if 6 + 2 * slot > vtable_bytes:
                continue
            offset = self._number("<H", vtable + 4 + 2 * slot)
            inline = field.size if field.is_scalar else 4
            if offset and (offset < 4 or offset + inline > table_bytes):
                raise corrupt("a field lies outside of its table", where)
            if offset:
                self._field(position + offset, field, where)

    def _field(self, position: int, field: Field, where: str) -> None:
        if field.is_scalar:
            return
        target = position + self._number("<I", position)
        if not field.vector:
            self._table(target, field.table, where)
            return
        count = self._number("<I", target)
        if count > field.limit:
            raise corrupt(f"a list has {count} entries, the limit is {field.limit}", where)
        if target + 4 + count * field.size > len(self._data):
            raise corrupt("a list reaches beyond the end of the file", where)
        if field.limit < MAX_FILE_BYTES:
            self._elements += count * (TABLE_ELEMENTS if field.table else 1)
            if self._elements > MAX_ELEMENTS:
                raise corrupt(f"the file's lists have more than {MAX_ELEMENTS} entries", where)
        if field.table:
            for i in range(count):
                entry = target + 4 + 4 * i
                self._table(entry + self._number("<I", entry), field.table, f"{field.table} {i}")
