"""`tinytrain emulate`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from tinytrain.bench.profile import OpCount, profile_run
from tinytrain.boards import get_board, optimized
from tinytrain.cli.options import (
    board_option,
    data_option,
    json_option,
    optimize_option,
    run_options,
    training_options,
)
from tinytrain.cli.output import activity, print_fields, print_json, print_table
from tinytrain.cli.search import with_scheme
from tinytrain.pipeline import Emulation, Run, RunOptions, Training, start_run
from tinytrain.pipeline import emulate as run_emulation
from tinytrain.pipeline import simulate as run_simulation

STEPS = 50


@click.command(short_help="Train in QEMU; count instructions.")
@training_options
@run_options
@board_option
@optimize_option
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
@click.option("--profile", is_flag=True, help="Count each operator, forward and backward.")
@json_option
def emulate(
    training: Training,
    run: RunOptions,
    board_name: str,
    optimize: str,
    data: Path,
    steps: int,
    directory: Path | None,
    profile: bool,
    as_json: bool,
) -> None:
    """Build the firmware, train in QEMU, and compare with the simulator bit for bit.

    Exits with 1 if the trained state is not the simulator's. Instructions are counted to within 40;
    cycles are not modelled, and no physical board is involved.

    \b
    Example: tinytrain emulate model.tflite --board mps2-an386 --data data.npz --profile
    """
    if training.scheme == "none":
        raise click.UsageError("the scheme none trains nothing: choose another to emulate")
    board = optimized(get_board(board_name), optimize)
    training = with_scheme(training, data, board_name, run)
    started = start_run(training, data, run, steps)
    with tempfile.TemporaryDirectory(prefix="tinytrain-") as scratch:
        folder = directory or Path(scratch) / "project"
        with activity(f"building for {board.name}, then training in QEMU") as on_line:
            result = run_emulation(started, board, folder, on_line)
            operators = profile_run(started, board, folder, on_line) if profile else ()
    simulated = run_simulation(_without_tests(started)).state_sha256
    document = {
        "model": training.model.name,
        "board": board.name,
        "scheme": training.scheme_name,
        **result.as_dict(),
        "simulator_state_sha256": simulated,
        "equal": result.state_sha256 == simulated,
    }
    if profile:
        document["operators"] = [vars(op) for op in operators]
    if as_json:
        print_json(document)
    else:
        _print(result, simulated)
        if profile:
            _print_profile(operators)
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
            "code in it": f"{result.code_bytes:,} bytes",
            "steps": result.steps,
            "training loss": f"{result.loss:.4f}",
            "state": f"sha256 {result.state_sha256}",
            "equals the simulator's": result.state_sha256 == simulated,
        }
    )


def _print_profile(operators: Sequence[OpCount]) -> None:
    total = max(1, sum(op.instructions for op in operators))
    kinds: dict[tuple[str, str], list[OpCount]] = {}
    for op in operators:
        kinds.setdefault((op.phase, op.kind), []).append(op)
    rows = [_profile_row(op.phase, op.kind, op.name, [op], total) for op in operators]
    print_table(("phase", "kind", "operator", "MACs", "instructions", "share", "a MAC"), rows)
    largest = sorted(kinds.items(), key=lambda item: -sum(op.instructions for op in item[1]))
    sums = [_profile_row(*key, f"{len(ops)} operators", ops, total) for key, ops in largest]
    print_table(("phase", "kind", "", "MACs", "instructions", "share", "a MAC"), sums)


def _profile_row(
    phase: str, kind: str, name: str, operators: Sequence[OpCount], total: int
) -> tuple[object, ...]:
    macs = sum(op.macs for op in operators)
    instructions = sum(op.instructions for op in operators)
    a_mac = f"{instructions / macs:.2f}" if macs else "-"
    return phase, kind, name, macs, instructions, f"{instructions / total:.1%}", a_mac


def _without_tests(run: Run) -> Run:
    """The same run with a single test sample: only its final state is of interest."""
    data = replace(run.data, x_test=run.data.x_test[:1], y_test=run.data.y_test[:1])
    return replace(run, data=data)
