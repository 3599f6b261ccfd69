"""What counts as too large, and that functions are found in C."""

from __future__ import annotations

from scripts.check_sizes import c_findings, c_functions, python_findings

C_TEXT = """\
/* A comment. */
#include "tt_types.h"

typedef struct tt_pair {
    int a, b;
} tt_pair;

static int add(const tt_pair *pair,
               int (*also)(int, int), int c)
{
    return pair->a + pair->b + also(c, 1);
}

void tt_nothing(void)
{
}
"""


def test_c_functions_have_places_names_and_parameters() -> None:
    found = list(c_functions(C_TEXT.splitlines()))
    assert [(first, last, name) for first, last, name, _ in found] == [
        (8, 12, "add"),
        (14, 16, "tt_nothing"),
    ]
    assert found[1][3] == 0


def test_small_files_pass() -> None:
    assert not list(c_findings("a.c", C_TEXT))
    assert not list(python_findings("a.py", "def f() -> int:\n    return 1\n"))


def test_long_things_are_named() -> None:
    body = "    x = 1\n" * 60
    assert list(python_findings("a.py", f"def f() -> None:\n{body}")) == [
        "a.py:1: f has 61 lines, at most 60"
    ]
    assert list(python_findings("a.py", "x = 1\n" * 501)) == ["a.py: 501 lines, at most 500"]
    long = "void f(void)\n{\n" + "    g();\n" * 78 + "}\n"
    assert list(c_findings("a.c", long)) == ["a.c:1: f has 81 lines, at most 80"]
    wide = "void f(int a, int b, int c,\n       int d, int e, int g, int h)\n{\n}\n"
    assert list(c_findings("a.c", wide)) == ["a.c:1: f has 7 parameters, at most 6"]
    assert list(c_findings("a.c", "int x;\n" * 401)) == ["a.c: 401 lines, at most 400"]
