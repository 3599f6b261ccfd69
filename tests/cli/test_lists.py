"""`doctor` and `boards`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Call
from tinytrain.cli import doctor
from tinytrain.toolchain.doctor import Tool

TOOLS = (
    Tool("C compiler", True, "cc 1.0", "/usr/bin/cc", "the simulator", ""),
    Tool("QEMU", False, "", "", "the emulator", "apt install qemu-system-arm"),
)


def test_boards(call: Call) -> None:
    shown = call("boards")
    assert shown.exit_code == 0
    row = next(line for line in shown.stdout.splitlines() if line.startswith("mps2-an500"))
    assert row.split() == [
        "mps2-an500", "cortex-m7", "dp", "1,048,576", "327,680", "25", "mps2-an500", "emulated"
    ]  # fmt: skip


def test_boards_as_json(call: Call) -> None:
    boards = {board["name"]: board for board in call("boards", "--json").document["boards"]}
    assert set(boards) >= {"mps2-an386", "mps2-an500"}
    assert boards["mps2-an386"]["core"] == "cortex-m4"
    assert boards["mps2-an386"]["status"] == "emulated"


def test_doctor(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "diagnose", lambda: TOOLS)
    shown = call("doctor")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[1].split() == ["found", "C", "compiler", "cc", "1.0", "the", "simulator"]
    assert lines[2].split() == ["MISSING", "QEMU", "the", "emulator"]
    assert lines[-1] == "To get QEMU: apt install qemu-system-arm"


def test_doctor_as_json(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "diagnose", lambda: TOOLS)
    document = call("doctor", "--json").document
    assert document["complete"] is False
    assert [tool["found"] for tool in document["tools"]] == [True, False]
    assert document["tools"][1]["how"] == "apt install qemu-system-arm"


def test_doctor_looks_at_this_machine(call: Call) -> None:
    assert call("doctor", "--json").document["tools"][0]["name"] == "Python"
