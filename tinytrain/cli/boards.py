"""`tinytrain boards`."""

from __future__ import annotations

from dataclasses import asdict

import click

from tinytrain.boards import load_boards
from tinytrain.cli.options import json_option
from tinytrain.cli.output import print_json, print_table


@click.command(short_help="List the boards.")
@json_option
def boards(as_json: bool) -> None:
    """List the boards: core, memory, and what was seen of each.

    The status says how far the claim goes: emulated (built, and run in QEMU), built, or described
    (only its file exists). Nothing here means a physical board.
    """
    found = load_boards()
    if as_json:
        print_json({"boards": [asdict(board) for board in found]})
        return
    rows = [
        (
            board.name,
            board.core,
            board.fpu,
            board.flash.bytes,
            board.ram.bytes,
            board.clock_hz // 1_000_000,
            board.emulator.machine if board.emulator else "-",
            board.status,
        )
        for board in found
    ]
    headers = ("board", "core", "FPU", "flash bytes", "SRAM bytes", "MHz", "QEMU", "status")
    print_table(headers, rows)
