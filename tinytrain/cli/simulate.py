"""`tinytrain simulate`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tinytrain.cli.options import data_option, json_option, run_options, training_options
from tinytrain.cli.output import (
    print_fields,
    print_json,
    print_table,
    progress,
    refuse_overwriting,
    write_file,
)
from tinytrain.cli.search import with_scheme
from tinytrain.pipeline import RunOptions, Simulation, Training, start_run
from tinytrain.pipeline import simulate as run_simulation
from tinytrain.toolchain.statistics import TensorStatistics

LOOKS = 20  # steps at which statistics are taken


@click.command(short_help="Train on this machine, in the C of a board.")
@training_options
@run_options
@data_option(required=True, why="")
@click.option(
    "--steps", type=click.IntRange(1), metavar="N", help="Train on N samples instead of epochs."
)
@click.option(
    "--state",
    "state_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the trained state, as a device saves it.",
)
@click.option("--board", "board_name", metavar="NAME", help="That the scheme auto is to fit.")
@click.option("--stats", "stats_file", type=click.Path(path_type=Path, dir_okay=False),
              metavar="FILE.json", is_flag=False, flag_value=Path("-"),
              help="Print what steps do to each tensor; with a name, keep it there.")  # fmt: skip
@json_option
def simulate(
    training: Training,
    run: RunOptions,
    data: Path,
    steps: int | None,
    state_file: Path | None,
    board_name: str | None,
    stats_file: Path | None,
    as_json: bool,
) -> None:
    """Train on this machine, in the C code that a board would run.

    \b
    Example: tinytrain simulate model.tflite --scheme bias:all --data data.npz --epochs 8
    """
    refuse_overwriting(state_file, training.model, data)
    training = with_scheme(training, data, board_name, run)
    started = start_run(training, data, run, steps)
    with progress("training") as advance:
        result = run_simulation(started, advance, LOOKS if stats_file else 0)
    if state_file is not None:
        write_file(state_file, result.state)
    if result.statistics is not None and stats_file != Path("-"):
        assert stats_file is not None
        kept = {**result.statistics.as_dict(), "warnings": result.warnings}
        write_file(stats_file, (json.dumps(kept, indent=1) + "\n").encode())
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        print_json(result.as_dict())
        return
    print_simulation(result)
    if result.statistics is not None:
        print_statistics(result.statistics)


def print_statistics(statistics: TensorStatistics) -> None:
    """Print what was seen, a table of errors and one of weights."""
    click.echo(f"\nmeans over {statistics.steps} steps")
    print_table(
        ("error", "saturated", "zero"),
        [(e.name, f"{e.saturated:.2%}", f"{e.zero:.1%}") for e in statistics.errors],
    )
    print_table(
        ("weights", "changed", "at their bound", "change / norm"),
        [
            (w.name, f"{w.changed:.1%}", f"{w.at_bound:.2%}", f"{w.update_ratio:.2g}")
            for w in statistics.weights
        ],
    )


def print_simulation(result: Simulation) -> None:
    """Print what a run did."""
    if result.accuracy_before is not None and result.accuracy_after is not None:
        test = {
            "accuracy before": f"{result.accuracy_before:.4f}",
            "accuracy after": f"{result.accuracy_after:.4f}",
        }
    else:
        test = {
            "test loss before": f"{result.loss_before:.6g}",
            "test loss after": f"{result.loss_after:.6g}",
        }
    print_fields(
        {
            **test,
            "training loss": f"{result.loss:.4f} (mean of the last tenth)",
            "steps": result.steps,
            "speed": f"{result.samples_per_second:,.0f} samples a second",
            "state": f"sha256 {result.state_sha256}",
        }
    )
