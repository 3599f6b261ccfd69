"""What README promises: its commands run as they stand, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tinytrain import auto
from tinytrain.cli.main import main
from tinytrain.demo.data import MODEL_PATH
from tinytrain.search import pick as picks

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (tinytrain .*)$", README, re.MULTILINE)


def test_commands_are_found() -> None:
    assert {command.split()[1] for command in COMMANDS} >= {"simulate", "compile"}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    samples = rng.integers(-128, 128, (12, 8, 8, 1)).astype(np.int8)
    labels = rng.integers(0, 10, 12)
    shutil.copy(MODEL_PATH, tmp_path / "model.tflite")
    np.savez(tmp_path / "data.npz", x_train=samples, y_train=labels, x_test=samples, y_test=labels)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(auto, "ROUNDS", (1,))  # a search of fewer trials
    monkeypatch.setattr(picks, "RATIOS", (1.0,))
    monkeypatch.setattr(auto, "cache_dir", lambda: tmp_path)
    result = CliRunner().invoke(main, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_make_targets_are_found() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for page in PAGES:
        for target in re.findall(r"`make ([a-z]+)`", page.read_text(encoding="utf-8")):
            assert target in targets, f"{page.name}: make {target}"
