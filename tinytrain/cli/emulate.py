"""`tinytrain emulate`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import click

from tinytrain.boards import get_board
from tinytrain.cli.options import (
    board_option,
    data_option,
    json_option,
    run_options,
    training_options,
)
from tinytrain.cli.output import activity, print_fields, print_json
from tinytrain.cli.search import with_scheme
from tinytrain.pipeline import Emulation, Run, RunOptions, Training, start_run
from tinytrain.pipeline import emulate as run_emulation
from tinytrain.pipeline import simulate as run_simulation

STEPS = 50


@click.command(short_help="Train in QEMU; count instructions.")
@training_options
@run_options
@board_option
@data_option(required=True, why="")
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=STEPS,
    show_default=True,
    metavar="N",
    help="Train on N samples.",
)
@click.option(
    "-o",
    "--output",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the project there; otherwise it is removed.",
)
@json_option
def emulate(
    training: Training,
    run: RunOptions,
    board_name: str,
    data: Path,
    steps: int,
    directory: Path | None,
    as_json: bool,
) -> None:
    """Build the firmware, train in QEMU, and compare with the simulator bit for bit.

    Exits with 1 if the trained state is not the simulator's. Instructions are counted to within 40;
    cycles are not modelled, and no physical board is involved.

    \b
    Example: tinytrain emulate model.tflite --board mps2-an386 --scheme head --data data.npz
    """
    if training.scheme == "none":
        raise click.UsageError("the scheme none trains nothing: choose another to emulate")
    board = get_board(board_name)
    training = with_scheme(training, data, board_name, run)
    started = start_run(training, data, run, steps)
    with tempfile.TemporaryDirectory(prefix="tinytrain-") as scratch:
        folder = directory or Path(scratch) / "project"
        with activity(f"building for {board.name}, then training in QEMU") as on_line:
            result = run_emulation(started, board, folder, on_line)
    simulated = run_simulation(_without_tests(started)).state_sha256
    document = {
        "model": training.model.name,
        "board": board.name,
        "scheme": training.scheme,
        **result.as_dict(),
        "simulator_state_sha256": simulated,
        "equal": result.state_sha256 == simulated,
    }
    if as_json:
        print_json(document)
    else:
        _print(result, simulated)
    if result.state_sha256 != simulated:
        raise click.exceptions.Exit(1)


def _print(result: Emulation, simulated: str) -> None:
    print_fields(
        {
            "instructions, inference": result.instructions_infer,
            "instructions, training step": result.instructions_train_step,
            "stack": f"{result.stack_bytes:,} bytes",
            ".data and .bss": f"{result.data_bss_bytes:,} bytes",
            "flash": f"{result.flash_bytes:,} bytes",
            "steps": result.steps,
            "training loss": f"{result.loss:.4f}",
            "state": f"sha256 {result.state_sha256}",
            "equals the simulator's": result.state_sha256 == simulated,
        }
    )


def _without_tests(run: Run) -> Run:
    """The same run with a single test sample: only its final state is of interest."""
    data = replace(run.data, x_test=run.data.x_test[:1], y_test=run.data.y_test[:1])
    return replace(run, data=data)
