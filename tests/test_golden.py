"""Texts that are made by a command and kept in the repository, so that a change shows as a diff."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tinytrain.analysis import supported_page
from tinytrain.demo.data import MODEL_PATH
from tinytrain.ir.graph import format_graph
from tinytrain.memory.report import memory_map
from tinytrain.memory.text_map import render_text
from tinytrain.pipeline import Training, prepare

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"

Golden = Callable[[Path, str], None]


def test_page_of_supported_operators(golden: Golden) -> None:
    golden(ROOT / "docs" / "operators.md", supported_page())


@pytest.mark.parametrize("scheme", ["head", "bias:2", "last:1", "full"])
def test_training_graphs_of_the_demonstration(golden: Golden, scheme: str) -> None:
    plan = prepare(Training(MODEL_PATH, scheme)).plan
    text = format_graph(plan.graph) + "\n" + render_text(memory_map(plan))
    golden(GOLDEN / f"digits_{scheme.replace(':', '_')}.txt", text)
