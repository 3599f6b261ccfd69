"""`tinytrain search` and the scheme auto."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tinytrain import auto
from tinytrain.search import pick as picks


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(auto, "SHORT_STEPS", 20)
    monkeypatch.setattr(auto, "ROUNDS", (1,))
    monkeypatch.setattr(picks, "RATIOS", (1.0,))
    monkeypatch.setattr(auto, "cache_dir", lambda: tmp_path / "cache")


def test_the_scheme_that_it_writes_can_be_used(
    call: Call, model: Path, data: Path, tmp_path: Path
) -> None:
    scheme, drawing = tmp_path / "best.toml", tmp_path / "front.svg"
    asked = [str(model), "--board", "mps2-an386", "--data", str(data), "--epochs", "1"]
    done = call("search", *asked, "--workers", "1", "-o", str(scheme), "--svg", str(drawing))
    assert done.exit_code == 0, done.stderr
    assert "best" in done.stdout and str(scheme) in done.stdout
    assert drawing.read_text().startswith("<svg")
    planned = call("plan", str(model), "--board", "mps2-an386", "--scheme", str(scheme))
    assert planned.exit_code == 0, planned.stderr
    again = call("search", *asked, "--workers", "1", "--json")
    document = again.document
    assert document["complete"] and document["best"] == document["entries"][0]
    assert f"{document['best']['sram_bytes']:,}" in scheme.read_text()


def test_auto_is_found_where_a_scheme_is_taken(call: Call, model: Path, data: Path) -> None:
    asked = [str(model), "--data", str(data), "--board", "mps2-an386", "--scheme", "auto"]
    done = call("simulate", *asked, "--epochs", "1", "--json")
    assert done.exit_code == 0, done.stderr
    assert "auto:" in done.stderr and done.document["steps"] > 0


@pytest.mark.parametrize("missing", ["--data", "--board"])
def test_auto_without_samples_or_board_says_what_is_missing(
    call: Call, model: Path, data: Path, missing: str
) -> None:
    options = {"--data": str(data), "--board": "mps2-an386"}
    del options[missing]
    command = "plan" if missing == "--data" else "simulate"
    given = [part for pair in options.items() for part in pair]
    done = call(command, str(model), "--scheme", "auto", *given)
    assert done.exit_code == 2 and f"{missing} is missing" in done.stderr
