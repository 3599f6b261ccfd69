"""Constant data of the generated C: tables and parameter structs, equal ones kept once.

In: arrays and parameter mappings of kernel calls. Out: `CTable`, `CStruct`. Must not know graphs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tinytrain.errors import InternalError
from tinytrain.ir import Array
from tinytrain.ir.names import Names
from tinytrain.ops.base import Param

C_TYPES = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "float32": "float",
}


@dataclass(frozen=True, eq=False)
class CTable:
    """A constant array: C identifier, element type, values (flat), and what a comment says."""

    name: str
    ctype: str
    values: Array
    comment: str

    @property
    def count(self) -> int:
        """Number of elements."""
        return int(self.values.size)

    @property
    def nbytes(self) -> int:
        """Bytes in flash."""
        return int(self.values.nbytes)


CValue = int | float | str | tuple["CField", ...]


@dataclass(frozen=True)
class CField:
    """A designated initializer: integer, float32, C expression, or a nested struct."""

    name: str
    value: CValue


@dataclass(frozen=True)
class CStruct:
    """A constant parameter struct."""

    name: str
    ctype: str
    fields: tuple[CField, ...]


@dataclass
class TablePool:
    """Tables by content.

    Attributes:
        names: identifiers taken in the file.
        prefix: of every table's name.
        tables: in order of first use.
    """

    names: Names
    prefix: str = ""
    tables: list[CTable] = field(default_factory=list)
    _known: dict[tuple[str, bytes], CTable] = field(default_factory=dict)

    def add(self, name: str, values: Array, comment: str) -> CTable:
        """The table with these values; `name` and `comment` count where it is new.

        Raises:
            InternalError: there are no values, or their type has no C type.
        """
        ctype = C_TYPES.get(values.dtype.name)
        if ctype is None or values.size == 0:
            what = f"{values.dtype}[{values.size}]"
            raise InternalError("bad-table", "codegen", f"no C table of {what}", where=name)
        flat = np.ascontiguousarray(values).reshape(-1)
        key = (ctype, flat.astype(flat.dtype.newbyteorder("<")).tobytes())
        if key not in self._known:
            table = CTable(self.names.unique(self.prefix + name), ctype, flat, comment)
            self._known[key] = table
            self.tables.append(table)
        return self._known[key]


@dataclass
class StructPool:
    """Parameter structs by content; their arrays go to `tables`."""

    names: Names
    tables: TablePool
    structs: list[CStruct] = field(default_factory=list)
    _known: dict[tuple[str, tuple[CField, ...]], CStruct] = field(default_factory=dict)

    def add(self, owner: str, ctype: str, params: Mapping[str, Param]) -> CStruct:
        """The struct with these parameters; new ones are named after `owner`."""
        fields = self._fields(owner, params)
        key = (ctype, fields)
        if key not in self._known:
            struct = CStruct(self.names.unique(f"{owner}_params"), ctype, fields)
            self._known[key] = struct
            self.structs.append(struct)
        return self._known[key]

    def _fields(self, owner: str, params: Mapping[str, Param]) -> tuple[CField, ...]:
        return tuple(CField(name, self._value(owner, name, v)) for name, v in params.items())

    def _value(self, owner: str, name: str, value: Param) -> CValue:
        if isinstance(value, Mapping):
            return self._fields(owner, value)
        if isinstance(value, str):
            return value
        if isinstance(value, np.ndarray):
            if value.size == 0:
                return "NULL"
            return self.tables.add(f"{owner}_{name}", value, "").name
        if isinstance(value, (bool, np.bool_)):
            return "true" if value else "false"
        if isinstance(value, (int, np.integer)):
            return int(value)
        real = float(np.float32(value))
        if not math.isfinite(real):
            message = f"the parameter {name} is {value}"
            raise InternalError("not-finite", "codegen", message, where=owner)
        return real
