"""Write docs/boards.md from boards/*.toml; ``--check`` only says whether it is current."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tinytrain.boards import Board, load_boards

PAGE = Path(__file__).resolve().parent.parent / "docs" / "boards.md"
CLAIMS = {
    "emulated": "emulated here",
    "built": "built here",
    "described": "described only",
}
HEAD = """\
# Boards

Written by `scripts/boards_page.py` from `boards/*.toml`; do not edit.

**Nothing has run on a physical board.** The last column says how far the claim goes:

- *emulated here*: PlatformIO builds the firmware with the board's own memory sizes, QEMU runs it,
  and training over its serial port ends with the simulator's bytes.
- *built here*: PlatformIO builds the firmware; nothing has run.
- *described only*: the file exists, and PlatformIO accepts the generated `platformio.ini`. The
  board's platform and Arduino core were not at hand. Application, port and library compile for such
  a core (M0+, M4F, M7 with either FPU) against a stand-in for the core's header, and the driver of
  its flash compiles against stand-ins for the vendor's.

"""
COLUMNS = (
    "`--board`", "board", "core", "FPU", "adds", "MHz", "flash KiB", "RAM KiB", "state kept in",
    "PlatformIO", "QEMU", "claim",
)  # fmt: skip
TAIL = """
Flash and RAM are what an application gets in one piece: without boot loaders, and without banks of
RAM that lie elsewhere. A linker script holds the emulated boards to these sizes, though QEMU's
machines have more. Comments in each file say what is left out.

## Arduino boards

The application talks over `Serial` at 115,200 baud, measures time by the core's cycle counter (by
`micros()` on a Cortex-M0+), and keeps its state at the end of internal flash, in two slots of whole
blocks (the table has driver and size of a block): two sectors of 256 KiB on an STM32F746, a few
pages on an STM32L476. Where the program reaches that far there is no storage: a save answers with
an error, and the greeting says so. `firmware/ports/board_arduino/tt_board_arduino.h` has the flags
that move the state, keep it in RAM only, or take storage of your own.

The drivers are **compiled against stand-ins**, for each board, and run on the build machine against
models of the vendors' calls that refuse what the parts refuse: a block or unit in pieces, a unit
programmed twice, work outside of the storage, a stale cache (`tests/firmware/test_flash.py`). None
has met a part. What a model cannot show: how long an erase stops the processor (up to seconds, for
a large sector; the host then sends again), and what reading a unit gives whose programming was cut.
On parts whose flash corrects errors such a read can be a fault; the drivers of STM32H7 and L4 guard
against it as ST's manuals describe.

## Adding a board

One file, `boards/<name>.toml`, and the checklist in [CONTRIBUTING.md](../CONTRIBUTING.md). Then
`python scripts/boards_page.py`.
"""


def page(boards: tuple[Board, ...]) -> str:
    """The page as Markdown: emulated boards first."""
    ordered = sorted(boards, key=lambda board: (board.status == "described", board.name))
    titles = "| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|\n"
    return HEAD + titles + "".join(map(_row, ordered)) + TAIL


def _row(board: Board) -> str:
    names = board.platformio
    cells = (
        f"`{board.name}`",
        board.title,
        board.core.replace("cortex-m", "M").replace("plus", "+"),
        {"none": "-", "sp": "single", "dp": "double"}[board.fpu],
        ", ".join(board.features).upper() or "-",
        f"{board.clock_hz / 1e6:g}",
        f"{board.flash.bytes / 1024:g}",
        f"{board.ram.bytes / 1024:g}",
        _state(board),
        "bare metal" if names.is_local else f"`{names.platform}` `{names.board}`",
        f"`{board.emulator.machine}`" if board.emulator else "-",
        CLAIMS[board.status],
    )
    return "| " + " | ".join(cells) + " |\n"


def _state(board: Board) -> str:
    """Where a trained state survives a power cut."""
    if board.state is not None:
        return f"flash, `{board.state.driver}`, {board.state.erase_bytes // 1024} KiB"
    return "a file" if board.emulator is not None else "RAM only"


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = page(load_boards())
    if options.check:
        return 0 if PAGE.is_file() and PAGE.read_text("utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
