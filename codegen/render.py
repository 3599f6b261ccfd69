"""The one jinja environment, and the filters that spell values in C.

In: a template's name and variables. Out: text. Must not know graphs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence

import jinja2
import numpy as np

from codegen.tables import CField, CTable, CValue
from tinytrain.resources import data_dir

LINE_WIDTH = 100


def render(template: str, **variables: object) -> bytes:
    """Render ``templates/<template>``; an undefined variable is an error."""
    return _environment().get_template(template).render(**variables).encode("utf-8")


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    filters = {
        "c_float": c_float,
        "c_decimal": c_decimal,
        "c_initializer": c_initializer,
        "c_table": c_table,
        "c_comment": c_comment,
        "hex32": lambda value: f"0x{value:08x}u",
        "json_string": json.dumps,
        "thousands": lambda value: f"{value:,}",
    }
    environment.filters.update(filters)
    return environment


def c_float(value: float) -> str:
    """A float32 as an exact hexadecimal literal: 0.375 is ``0x1.8p-2f``."""
    mantissa, exponent = float(np.float32(value)).hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}f"


def c_decimal(value: float) -> str:
    """A float32 as the shortest decimal literal that is exactly it: 0.1 is ``0.1f``."""
    text = str(np.float32(value))
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def c_int(value: int) -> str:
    """An integer literal of a type that C gives it without a warning."""
    if value == -(1 << 31):
        return "INT32_MIN"
    return f"{value}u" if value > (1 << 31) - 1 else str(value)


def c_comment(text: str) -> str:
    """Text that cannot end a comment, or begin one, or continue a line."""
    clean = text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")
    return "".join(c if c.isprintable() else " " for c in clean)


def c_initializer(fields: Sequence[CField], indent: int = 4) -> str:
    """Designated initializers, one a line; nested structs in braces on their line."""
    if not fields:
        return " " * indent + "0,\n"
    return "".join(_field(field, indent) for field in fields)


def _field(field: CField, indent: int) -> str:
    pad = " " * indent
    if isinstance(field.value, tuple):
        items = [f".{inner.name} = {_value(inner.value)}" for inner in field.value]
        return f"{pad}.{field.name} =\n" + _wrap(items, indent + 4, "{", "},") + "\n"
    return f"{pad}.{field.name} = {_value(field.value)},\n"


def _value(value: CValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return c_int(value)
    if isinstance(value, float):
        return c_float(value)
    return "{" + ", ".join(f".{f.name} = {_value(f.value)}" for f in value) + "}"


def _wrap(items: Iterable[str], indent: int, opening: str, closing: str) -> str:
    """`items` separated by commas in lines that are not too long."""
    lines: list[str] = []
    line = " " * indent + opening
    empty = line
    for item in items:
        if line != empty and len(line) + len(item) + 3 > LINE_WIDTH:
            lines.append(line + ",")
            line = empty = " " * (indent + len(opening))
            line += item
        else:
            line += item if line == empty else f", {item}"
    lines.append(line + closing)
    return "\n".join(lines)


def c_table(table: CTable) -> str:
    """The values of a table, a fixed number a line, indented by four."""
    if table.values.dtype == np.float32:
        words = [c_float(v) for v in table.values.tolist()]
    else:
        words = [c_int(v) for v in table.values.tolist()]
    widest = max(map(len, words))
    per_line = max(1, (LINE_WIDTH - 4) // (widest + 2))
    per_line = 1 << (per_line.bit_length() - 1)
    rows = (words[i : i + per_line] for i in range(0, len(words), per_line))
    return "".join("    " + ", ".join(row) + ",\n" for row in rows)
