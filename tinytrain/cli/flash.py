"""`tinytrain flash`."""

from __future__ import annotations

from pathlib import Path

import click

from tinytrain.cli.device import project_board
from tinytrain.cli.options import json_option
from tinytrain.cli.output import activity, print_fields, print_json
from tinytrain.toolchain.platformio import build_project, upload_project


@click.command(short_help="Build a project's firmware and put it on the board.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--board", "name", metavar="NAME", help="Of the project's boards; else the first.")
@click.option("--port", metavar="PORT", help="Of the board; PlatformIO looks for one otherwise.")
@click.option("--build-only", is_flag=True, help="Build, and do not upload.")
@json_option
def flash(
    directory: Path, name: str | None, port: str | None, build_only: bool, as_json: bool
) -> None:
    """Build the firmware of a generated project with PlatformIO, and upload it.

    Emulated boards have nothing to be flashed: their firmware is built, and `train --emulator` runs
    it.

    \b
    Example: tinytrain flash device --port /dev/ttyACM0
    """
    board = project_board(directory, name)
    is_emulated = board.emulator is not None and board.platformio.is_local
    if is_emulated and port is not None:
        raise click.UsageError(f"{board.name} is emulated and has no port")
    uploads = not build_only and not is_emulated
    with activity(f"building for {board.name}") as on_line:
        built = build_project(directory, board.name, on_line=on_line)
    if uploads:
        with activity(f"uploading to {board.name}") as on_line:
            upload_project(directory, board.name, port=port, on_line=on_line)
    document = {
        "board": board.name,
        "firmware": str(built.elf),
        "flash_bytes": built.size.flash_bytes,
        "ram_bytes": built.size.ram_bytes,
        "board_flash_bytes": board.flash.bytes,
        "board_ram_bytes": board.ram.bytes,
        "uploaded": uploads,
    }
    if as_json:
        print_json(document)
        return
    print_fields(
        {
            "board": board.title,
            "firmware": built.elf,
            "flash": f"{built.size.flash_bytes:,} of {board.flash.bytes:,} bytes",
            "RAM with stack": f"{built.size.ram_bytes:,} of {board.ram.bytes:,} bytes",
            "uploaded": uploads,
        }
    )
    if not uploads and not build_only:
        click.echo(f"emulated: tinytrain train --project {directory} --emulator --data data.npz")
