from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tinytrain.bench import compare_counts
from tinytrain.cli.main import main


def test_a_missing_zoo_is_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["bench", "models", "--zoo", str(tmp_path)])
    assert done.exit_code == 1
    assert "TINYTRAIN_ZOO" in done.output


def test_growth_above_two_percent_is_worse() -> None:
    kept = {"a/m4": 1000, "b/m4": 1000, "c/m4": 1000}
    lines = compare_counts(kept, {"a/m4": 1020, "b/m4": 1021})
    assert len(lines) == 1 and lines[0].startswith("b/m4")


@pytest.mark.zoo
@pytest.mark.arm
@pytest.mark.qemu
def test_keyword_spotting_stays_within_its_limit(zoo: Path, tmp_path: Path) -> None:
    kept = tmp_path / "counts.json"
    asked = ["bench", "models", "--zoo", str(zoo), "--model", "kws", "--board", "mps2-an386"]
    done = CliRunner().invoke(main, [*asked, "--write", str(kept)])
    assert done.exit_code == 0, done.output
    assert "kws" in done.output and "5,100,000" in done.output
    again = CliRunner().invoke(main, [*asked, "--compare", str(kept), "--json"])
    assert again.exit_code == 0 and '"worse": []' in again.output
