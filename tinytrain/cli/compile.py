"""`tinytrain compile`."""

from __future__ import annotations

from pathlib import Path

import click

from tinytrain.boards import get_board, optimized
from tinytrain.cli.options import (
    board_option,
    data_option,
    json_option,
    optimize_option,
    run_options,
    training_options,
)
from tinytrain.cli.output import print_json
from tinytrain.pipeline import RunOptions, Training, compile_project, fit, prepare, start_run


@click.command("compile", short_help="Generate a PlatformIO project.")
@training_options
@run_options
@board_option
@optimize_option
@data_option(required=False, why="; calibrates the first steps")
@click.option(
    "-o",
    "--output",
    "directory",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder of the project; an earlier one of tinytrain is replaced.",
)
@json_option
def compile_(
    training: Training,
    run: RunOptions,
    board_name: str,
    optimize: str,
    data: Path | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Generate a PlatformIO project: a library that infers and learns, and an example.

    With --data the project starts calibrated, as `simulate` and `emulate` do, and ends with their
    bits. Without, the ranges of errors and the norms of steps settle within the first steps on the
    device.

    \b
    Example: tinytrain compile model.tflite --board mps2-an500 --scheme bias:all -o firmware
    """
    board = optimized(get_board(board_name), optimize)
    if data is None:
        prepared = prepare(training)
        if training.scheme != "none":
            click.echo("not calibrated (no --data): the bits differ from simulate's", err=True)
    else:
        prepared = start_run(training, data, run).prepared
    files = compile_project(prepared, board, directory)
    sizes = fit(prepared, board)
    if as_json:
        print_json({**sizes.as_dict(), "directory": str(directory), "files": sorted(files)})
        return
    total = sum(len(content) for content in files.values())
    click.echo(f"{directory}: {len(files)} files, {total:,} bytes")
    click.echo(f"build:  pio run -d {directory} -e {board.name}")
    if board.emulator is not None:
        click.echo("or build and run in QEMU:  tinytrain emulate, with the same options")
