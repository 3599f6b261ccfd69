"""Values spelled in C."""

from __future__ import annotations

import jinja2
import numpy as np
import pytest

from codegen.render import c_comment, c_decimal, c_float, c_initializer, c_int, c_table, render
from codegen.tables import CField, StructPool, TablePool
from tinytrain.errors import InternalError
from tinytrain.ir.names import Names
from tinytrain.ops.base import Param


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.375, "0x1.8p-2f"),
        (12.0, "0x1.8p+3f"),
        (0.0, "0x0.0p+0f"),
        (-1.0, "-0x1p+0f"),
        (0.1, "0x1.99999ap-4f"),
        (1e-45, "0x1p-149f"),
    ],
)
def test_float_literals_are_exact(value: float, expected: str) -> None:
    literal = c_float(value)
    assert float.fromhex(literal[:-1]) == float(np.float32(value))
    assert literal == expected or value == 0.0


@pytest.mark.parametrize("value", [0.1, 1.0, 1e-10, 3.4e38, 1 / 255])
def test_decimal_literals_are_exact(value: float) -> None:
    literal = c_decimal(value)
    assert literal.endswith("f")
    assert np.float32(literal[:-1]) == np.float32(value)
    assert "." in literal or "e" in literal


def test_integers() -> None:
    assert [c_int(v) for v in (0, -7, -(1 << 31), (1 << 32) - 1)] == [
        "0",
        "-7",
        "INT32_MIN",
        "4294967295u",
    ]


def test_comments_cannot_be_left() -> None:
    assert c_comment("a */ b /* c \\\n d") == "a * / b / * c /  d"


def test_tables_are_shared_by_content() -> None:
    pool = TablePool(Names(), prefix="m_")
    first = pool.add("a", np.array([[1, 2]], np.int8), "")
    again = pool.add("b", np.array([1, 2], np.int8), "")
    other = pool.add("a", np.array([1, 2], np.int16), "")
    assert first is again
    assert (first.name, other.name) == ("m_a", "m_a_2")
    assert c_table(first) == "    1, 2,\n"
    assert [t.ctype for t in pool.tables] == ["int8_t", "int16_t"]


def test_long_tables_are_wrapped() -> None:
    table = TablePool(Names()).add("a", np.arange(1000, dtype=np.int32), "")
    lines = c_table(table).splitlines()
    assert max(map(len, lines)) <= 100
    assert [int(v) for line in lines for v in line.split(",") if v.strip()] == list(range(1000))


@pytest.mark.parametrize("values", [np.zeros(0, np.int8), np.zeros(2, np.float64)])
def test_tables_that_c_cannot_have(values: np.ndarray) -> None:  # type: ignore[type-arg]
    with pytest.raises(InternalError):
        TablePool(Names()).add("a", values, "")


def test_structs() -> None:
    names = Names()
    pool = StructPool(names, TablePool(names))
    params: dict[str, Param] = {
        "window": {"in_h": 3, "pad": -1},
        "gain": 0.5,
        "on": True,
        "channels": "NULL",
        "table": np.array([1, 2], np.uint16),
        "none": np.zeros(0, np.uint16),
    }
    first = pool.add("first", "tt_k_params", params)
    assert pool.add("second", "tt_k_params", params) is first
    assert pool.add("second", "tt_k_params", {**params, "on": False}).name == "second_params"
    assert c_initializer(first.fields) == (
        "    .window =\n"
        "        {.in_h = 3, .pad = -1},\n"
        "    .gain = 0x1p-1f,\n"
        "    .on = true,\n"
        "    .channels = NULL,\n"
        "    .table = first_table,\n"
        "    .none = NULL,\n"
    )
    assert c_initializer((CField("x", 1),)) == "    .x = 1,\n"
    assert c_initializer(()) == "    0,\n"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e39])
def test_numbers_that_float32_cannot_have(value: float) -> None:
    names = Names()
    with pytest.raises(InternalError), np.errstate(over="ignore"):
        StructPool(names, TablePool(names)).add("a", "t", {"x": value})


def test_undefined_variables_are_errors() -> None:
    with pytest.raises(jinja2.UndefinedError):
        render("model.h.j2")
