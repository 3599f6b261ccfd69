"""C identifiers for models, operators and tensors."""

from __future__ import annotations

import re

import pytest

from codegen.names import MAX_LENGTH, identifier, model_name
from tinytrain.errors import InputError
from tinytrain.ir.names import Names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("conv2d_1", "conv2d_1"),
        ("model/Conv2D:0", "model_conv2d_0"),
        ("3x3", "t_3x3"),
        ("", "t"),
        ("Größe", "gr_e"),
        ("__x__", "x"),
    ],
)
def test_identifier(text: str, expected: str) -> None:
    assert identifier(text) == expected


def test_long_names_keep_their_end() -> None:
    name = identifier("a_very_long_scope_of_a_model/" * 4 + "block_16/project/BatchNorm")
    assert name.endswith("block_16_project_batchnorm")
    assert len(name) <= MAX_LENGTH
    assert re.fullmatch("[a-z_][a-z0-9_]*", name)


def test_unique() -> None:
    names = Names(["a"])
    assert [names.unique(n) for n in ("a", "a", "b", "a_2")] == ["a_2", "a_3", "b", "a_2_2"]


def test_model_names_hide_no_header_and_no_symbol() -> None:
    for name in ("string", "features", "tt", "math", "main", "int", "tt_runtime"):
        assert model_name(None, name) == f"{name}_model" or name == "tt_runtime"
        with pytest.raises(InputError):
            model_name(name, "x")
    assert model_name(None, "Digits v2") == "digits_v2"


@pytest.mark.parametrize("name", ["", "Digits", "2d", "a-b", "a b", "../x", "a" * 41, "é"])
def test_bad_model_names(name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name"):
        model_name(name, "x")
