"""The frame of all commands: help, errors, exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from tests.cli.conftest import Call
from tinytrain.cli import boards, start
from tinytrain.cli.main import main
from tinytrain.errors import ToolError

COMMANDS = [
    "demo",
    "doctor",
    "boards",
    "inspect",
    "verify",
    "plan",
    "search",
    "simulate",
    "compile",
    "emulate",
    "flash",
    "train",
    "monitor",
    "state",
    "bench",
]


def test_help_lists_every_command(call: Call) -> None:
    shown = call("--help")
    assert shown.exit_code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in shown.stdout
    assert list(main.commands) == COMMANDS


def test_version(call: Call) -> None:
    shown = call("--version")
    assert shown.exit_code == 0 and shown.stdout.startswith("tinytrain ")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_and_json(call: Call, name: str) -> None:
    shown = call(name, "--help")
    assert shown.exit_code == 0
    if name != "state":  # a group: its commands have it
        assert "--json" in shown.stdout
    if name not in ("demo", "doctor", "boards"):
        assert f"Example: tinytrain {name}" in shown.stdout


def test_a_misspelt_command_gets_a_suggestion(call: Call) -> None:
    shown = call("simulte")
    assert shown.exit_code == 2
    assert "simulate" in shown.stderr and shown.stdout == ""


def test_usage_errors_are_json_where_json_is_asked_for(call: Call) -> None:
    shown = call("plan", "--json")
    assert shown.exit_code == 2
    assert shown.document["error"]["code"] == "usage"
    assert shown.document["error"]["exit_code"] == 2


def test_errors_say_what_to_do(call: Call, model: Path) -> None:
    shown = call("plan", model, "--board", "mps2-an999")
    assert shown.exit_code == 2 and shown.stdout == ""
    assert shown.stderr.startswith("error: no board is called 'mps2-an999' [unknown-board]\n")
    assert "hint: boards: " in shown.stderr and "mps2-an386" in shown.stderr


def test_errors_as_json(call: Call, tmp_path: Path) -> None:
    shown = call("inspect", tmp_path / "missing.tflite", "--json")
    assert shown.exit_code == 1 and shown.stderr == ""
    error = shown.document["error"]
    assert set(error) == {"code", "stage", "message", "where", "hint", "exit_code"}
    assert error["where"].endswith("missing.tflite") and error["exit_code"] == 1


def raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(boards, "load_boards", fail)


def test_a_missing_tool_is_exit_code_3(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(ToolError("missing-x", "toolchain", "x is missing", hint="line\nline"), monkeypatch)
    shown = call("boards")
    assert shown.exit_code == 3
    assert "x is missing [missing-x]\n  hint: line\n        line\n" in shown.stderr


def test_an_interrupt_is_exit_code_130(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(KeyboardInterrupt(), monkeypatch)
    shown = call("boards")
    assert shown.exit_code == 130 and "interrupted" in shown.stderr


def test_file_errors_are_messages(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(PermissionError(13, "Permission denied", "/some/file"), monkeypatch)
    shown = call("boards")
    assert shown.exit_code == 1
    assert "Permission denied (/some/file) [file-error]" in shown.stderr


def test_bugs_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(ZeroDivisionError(), monkeypatch)
    with pytest.raises(ZeroDivisionError):
        main.main(["boards"])


def test_commands_are_click_commands() -> None:
    assert all(isinstance(command, click.Command) for command in main.commands.values())


def test_a_full_stdout_is_an_error_not_a_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tinytrain.cli.main", "boards", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1 and done.stderr.startswith("error: cannot write")
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_modules_load(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str) -> ModuleType:
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "import_module", interrupted)
    with pytest.raises(SystemExit) as caught:
        start.main()
    assert caught.value.code == 130 and capsys.readouterr().err == "interrupted\n"


def test_the_process_begins_with_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tinytrain", "--version"])
    with pytest.raises(SystemExit) as caught:
        start.main()
    assert caught.value.code == 0
    project = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert 'tinytrain = "tinytrain.cli.start:main"' in project


@pytest.mark.parametrize("name", ["model", "data", ""])
def test_no_output_replaces_what_is_read(
    call: Call, model: Path, data: Path, tmp_path: Path, name: str
) -> None:
    copy = tmp_path / "copy.tflite"
    copy.write_bytes(model.read_bytes())
    output = {"model": copy, "data": data, "": ""}[name]
    shown = call("simulate", copy, "--data", data, "--steps", "2", "--state", output)
    assert shown.exit_code == 2 and "bad-output" in shown.stderr
    assert copy.read_bytes() == model.read_bytes()


def test_a_folder_is_no_model(call: Call, tmp_path: Path) -> None:
    shown = call("inspect", tmp_path)
    assert shown.exit_code == 1 and "no regular file" in shown.stderr
