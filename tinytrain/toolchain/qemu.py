"""Run a firmware image in QEMU, deterministically.

In: an ELF file and the board whose machine runs it. Out: what it printed and its exit code. Files
and the command line go through semihosting, relative to the working folder that is given.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tinytrain.boards import Board
from tinytrain.errors import ToolError, UsageError

PROGRAM = "qemu-system-arm"
FAULT_EXIT_CODE = 125
"""Exit code of a firmware that ended in a fault (`TT_PORT_EXIT_FAULT` in firmware/ports)."""

_STAGE = "toolchain"
_TAIL_LINES = 20
# Semihosting joins the arguments by blanks, and QEMU's option parser ends a value at a comma.
_ARGUMENT = re.compile(r"[^\s,]+")


@dataclass(frozen=True)
class EmulatorRun:
    """One finished run: `stdout` is what the firmware printed, `stderr` what QEMU said."""

    stdout: str
    stderr: str
    exit_code: int

    @property
    def faulted(self) -> bool:
        """Whether the firmware ended in a processor fault; `stdout` ends with the report."""
        return self.exit_code == FAULT_EXIT_CODE


def find_qemu() -> str:
    """Return the path of QEMU for Arm systems.

    Raises:
        ToolError: it is not installed.
    """
    path = shutil.which(PROGRAM)
    if path is None:
        raise ToolError(
            "missing-qemu",
            _STAGE,
            f"{PROGRAM} is not on PATH",
            hint="Debian, Ubuntu: apt install qemu-system-arm; others: see the QEMU download page",
        )
    return path


def qemu_command(elf: Path, board: Board, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command line that runs `elf` on `board`'s machine.

    ``-icount shift=0`` makes the virtual clock advance 1 ns with each instruction, so equal runs
    are equal to the instruction. The first argument the firmware sees is ``firmware``.

    Raises:
        UsageError: the board has no machine, or an argument holds a blank or a comma.
        ToolError: QEMU is not installed.
    """
    if board.emulator is None:
        raise UsageError(
            "not-emulated",
            _STAGE,
            f"the board {board.name} has no emulated machine",
            hint="`tinytrain boards` says which have",
        )
    for argument in arguments:
        if not _ARGUMENT.fullmatch(argument):
            raise UsageError(
                "bad-argument",
                _STAGE,
                f"the argument {argument!r} cannot be handed to firmware",
                hint="use no blanks and no commas; file names are relative to the working folder",
            )
    words = "".join(f",arg={word}" for word in ("firmware", *arguments))
    return [
        find_qemu(),
        *("-M", board.emulator.machine),
        *("-icount", "shift=0"),
        *("-display", "none"),
        *("-monitor", "none"),
        *("-serial", "none"),
        *("-semihosting-config", f"enable=on,target=native{words}"),
        *("-kernel", str(elf.resolve())),
    ]


def run_firmware(
    elf: Path,
    board: Board,
    *,
    arguments: Sequence[str] = (),
    working_dir: Path | None = None,
    timeout_s: float = 600.0,
) -> EmulatorRun:
    """Run `elf` to its end.

    Args:
        arguments: words for the firmware's command line, without blanks or commas.
        working_dir: where the firmware's relative file names are looked up.
        timeout_s: the emulator is stopped after this time.

    Raises:
        UsageError: see `qemu_command`.
        ToolError: QEMU is missing, failed itself, or did not end in time.
    """
    command = qemu_command(elf, board, arguments)
    try:
        done = subprocess.run(
            command,
            cwd=working_dir,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            "emulator-timeout",
            _STAGE,
            f"the firmware did not end within {timeout_s:g} s",
            where=str(elf),
            hint=_tail((error.stdout or b"").decode("utf-8", "replace")),
        ) from error
    except OSError as error:
        raise ToolError("emulator-failed", _STAGE, f"cannot start QEMU: {error}") from error
    stdout = done.stdout.decode("utf-8", "replace")
    stderr = done.stderr.decode("utf-8", "replace")
    if done.returncode < 0 or (done.returncode == 1 and f"{PROGRAM}: " in stderr):
        # A signal (QEMU aborts where the processor locks up), or its own start-up error.
        raise ToolError(
            "emulator-failed",
            _STAGE,
            f"QEMU itself ended with code {done.returncode}",
            where=str(elf),
            hint=_tail(stdout + stderr),
        )
    return EmulatorRun(stdout, stderr, done.returncode)


def _tail(text: str) -> str:
    lines = text.rstrip().splitlines()[-_TAIL_LINES:]
    return "last output:\n" + "\n".join(lines) if lines else "it printed nothing"
