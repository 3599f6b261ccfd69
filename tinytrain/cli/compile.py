"""`tinytrain compile`."""

from __future__ import annotations

from pathlib import Path

import click

from tinytrain.boards import get_board
from tinytrain.cli.options import (
    data_option,
    json_option,
    run_options,
    training_options,
)
from tinytrain.cli.output import print_json
from tinytrain.cli.search import with_scheme
from tinytrain.pipeline import RunOptions, Training, compile_project, fit, prepare, start_run


@click.command("compile", short_help="Generate a PlatformIO project.")
@training_options
@run_options
@click.option(
    "--board",
    "board_names",
    required=True,
    multiple=True,
    metavar="NAME",
    help="See: tinytrain boards. Several times for several boards; the first is built by default.",
)
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
@click.option(
    "--name",
    metavar="NAME",
    help="Prefix of library, header and all symbols, so that several models live in one firmware; "
    "that of the model's file unless given.",
)
@json_option
def compile_(
    training: Training,
    run: RunOptions,
    board_names: tuple[str, ...],
    data: Path | None,
    directory: Path,
    name: str | None,
    as_json: bool,
) -> None:
    """Generate a PlatformIO project: a library that infers and learns, and an example.

    With --data the project starts calibrated, as `simulate` and `emulate` do, and ends with their
    bits. Without, the ranges of errors and the norms of steps settle within the first steps on the
    device.

    \b
    Example: tinytrain compile model.tflite --board mps2-an500 --scheme bias:all -o device
    """
    boards = tuple(get_board(found) for found in dict.fromkeys(board_names))
    board = boards[0]
    training = with_scheme(training, data, board.name, run)
    if data is None:
        prepared = prepare(training)
        if training.scheme != "none":
            click.echo("not calibrated (no --data): the bits differ from simulate's", err=True)
    else:
        prepared = start_run(training, data, run).prepared
    files = compile_project(prepared, boards, directory, name)
    sizes = fit(prepared, board)
    if as_json:
        print_json(
            {
                **sizes.as_dict(),
                "boards": [b.name for b in boards],
                "directory": str(directory),
                "files": sorted(files),
            }
        )
        return
    total = sum(len(content) for content in files.values())
    click.echo(f"{directory}: {len(files)} files, {total:,} bytes")
    environments = " ".join(f"-e {found.name}" for found in boards)
    click.echo(f"build:  pio run -d {directory} {environments}")
    if board.emulator is not None:
        click.echo("or build and run in QEMU:  tinytrain emulate, with the same options")
