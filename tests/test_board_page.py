"""docs/board.md: its commands run as they stand, in a fresh folder, and print what it shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts.board_page import COMMAND, PAGE, ROOT, label, refresh
from tinytrain.toolchain.state_file import decode_state

TEXT = PAGE.read_text("utf-8")
VOLATILE = ("device", "firmware", "flash", "RAM with stack", "speed", "build")
"""Lines whose values follow the compiler and the machine."""


def values(page: str) -> list[str]:
    """The lines of all outputs, without what may differ from machine to machine."""
    lines = [line for match in COMMAND.finditer(page) for line in match.group(2).splitlines()]
    return [label(line) if label(line).strip() in VOLATILE else line for line in lines]


def test_five_commands_that_collide_with_nothing_in_a_clone() -> None:
    commands = [match.group(1).split() for match in COMMAND.finditer(TEXT)]
    assert [words[1] for words in commands] == ["compile", "flash", "train", "monitor", "state"]
    made = {"example", commands[0][commands[0].index("-o") + 1], commands[4][3]}
    tracked = subprocess.run(
        ["git", "ls-files", *sorted(made)], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    assert tracked == ""
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert all({f"/{name}", f"/{name}/"} & set(ignored) for name in made)


@pytest.mark.arm
@pytest.mark.qemu
def test_they_print_what_the_page_shows(tmp_path: Path) -> None:
    page = refresh(TEXT, tmp_path)
    assert values(page) == values(TEXT), "python scripts/board_page.py writes the page anew"
    found = decode_state((tmp_path / "learned.state").read_bytes(), "learned.state")
    assert found.step_index == 800
    digest = re.search(r"state_sha256  ([0-9a-f]{64})", page)
    assert digest is not None and page.count(digest.group(1)) == 2
