"""docs/board.md: its commands run as they stand, in a fresh folder, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from tinytrain.cli.main import main
from tinytrain.demo.__main__ import write
from tinytrain.toolchain.state_file import decode_state

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "board.md").read_text("utf-8")
COMMANDS = re.findall(r"^    (tinytrain .*)$", PAGE, re.MULTILINE)[:5]


@pytest.mark.arm
@pytest.mark.qemu
def test_the_five_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "example")
    names = [command.split()[1] for command in COMMANDS]
    assert names == ["compile", "flash", "train", "monitor", "state"]
    for command in COMMANDS:
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert result.exit_code == 0, f"{command}\n{result.output}"
    found = decode_state((tmp_path / "learned.state").read_bytes(), "learned.state")
    assert found.step_index == 800
