"""`tinytrain search`, and how other commands find the scheme `auto`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tinytrain.auto import CRITERIA, Entry, Study
from tinytrain.auto import search as run_search
from tinytrain.boards import get_board
from tinytrain.cli.options import (
    board_option,
    data_option,
    json_option,
    run_options,
    training_options,
)
from tinytrain.cli.output import print_json, print_table, progress, refuse_overwriting, write_file
from tinytrain.errors import UsageError
from tinytrain.pipeline import RunOptions, Training
from tinytrain.search.svg_front import Mark, render_front


@click.command(short_help="Find the scheme to train on a board.")
@training_options
@run_options
@board_option
@data_option(required=True, why="; the test samples are not looked at")
@click.option("--sram", type=click.IntRange(1), metavar="BYTES",
              help="Budget; the board's RAM unless given.")  # fmt: skip
@click.option("--time-limit", type=click.FloatRange(1), default=180.0, show_default=True,
              metavar="S", help="Seconds after which no further training starts.")  # fmt: skip
@click.option("--criterion", type=click.Choice(CRITERIA), default=CRITERIA[0], show_default=True,
              help="contribution: a short training each; gradient: one pass.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True,
              help="Trainings at a time.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False),
              metavar="FILE.toml", help="Write the best scheme, for --scheme.")  # fmt: skip
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Draw what the schemes reach against SRAM.")  # fmt: skip
@json_option
def search(
    training: Training,
    run: RunOptions,
    board_name: str,
    data: Path,
    sram: int | None,
    time_limit: float,
    criterion: str,
    workers: int,
    output: Path | None,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Find which biases, layers and channels to train on a board, by trials on held-out samples.

    Every trial's result is kept: a search that was stopped goes on where it was.

    \b
    Example: tinytrain search model.tflite --board mps2-an500 --data data.npz -o best.toml
    """
    for path in (output, svg):
        refuse_overwriting(path, training.model, data)
    with _stages() as stage:
        study = run_search(
            training,
            data,
            get_board(board_name),
            run,
            sram_bytes=sram,
            time_limit_s=time_limit,
            criterion=criterion,
            workers=workers,
            stage=stage,
        )
    if output is not None:
        write_file(output, scheme_text(study, training, board_name).encode())
    if svg is not None:
        write_file(svg, draw(study, training, board_name).encode())
    if as_json:
        print_json(as_document(study))
        return
    print_study(study)
    if output is not None:
        click.echo(f"written: {output}; use it as --scheme {output}")


@contextmanager
def _stages() -> Iterator[Callable[[str], Any]]:
    """A progress bar a stage, one at a time."""
    with ExitStack() as stack:

        def stage(name: str) -> Any:
            stack.close()
            return stack.enter_context(progress(name))

        yield stage


def with_scheme(
    training: Training, data: Path | None, board_name: str | None, run: RunOptions | None = None
) -> Training:
    """The training with `auto` replaced by the scheme that a search finds; others as they are.

    Raises:
        UsageError: the command was not given samples or a board.
    """
    if training.scheme != "auto":
        return training
    if data is None or board_name is None:
        missing = "--data" if data is None else "--board"
        raise UsageError(
            "auto-needs-data",
            "search",
            f"the scheme auto is found by training on samples for a board: {missing} is missing",
            hint="give it, or run `tinytrain search` once and use the file that it writes",
        )
    with _stages() as stage:
        study = run_search(training, data, get_board(board_name), run or RunOptions(), stage=stage)
    print(f"auto: {study.best.pick} ({study.best.name})", file=sys.stderr)
    return replace(training, scheme=study.best.pick.table)


def scheme_text(study: Study, training: Training, board_name: str) -> str:
    """The best scheme as a file."""
    best = study.best
    assert best.score is not None
    return best.pick.toml(
        f"found by tinytrain search for {training.model.name} on {board_name}: {best.name}\n"
        f"{_reached(best)} on held-out samples; SRAM {best.sram_bytes:,} of"
        f" {study.budget_bytes:,} bytes"
    )


def as_document(study: Study) -> dict[str, Any]:
    """For ``--json``."""
    return {
        "best": _entry(study.best),
        "entries": [_entry(entry) for entry in study.entries],
        "budget_bytes": study.budget_bytes,
        "additive_gap": study.gap,
        "contributions": study.contributions,
        "complete": study.complete,
    }


def _entry(entry: Entry) -> dict[str, Any]:
    score = entry.score
    return {
        "name": entry.name,
        "scheme": str(entry.pick),
        "bias_last": entry.pick.bias_last,
        "weights": [list(pair) for pair in entry.pick.weights],
        "expected_gain": entry.gain,
        "quality": score and score.quality,
        "loss": score and score.loss,
        "sram_bytes": entry.sram_bytes,
        "macs_backward": entry.macs_backward,
        "fits": entry.fits,
    }


def _reached(entry: Entry) -> str:
    assert entry.score is not None
    if entry.score.quality < 0:
        return f"mean squared error {entry.score.loss:.4g}"
    return f"accuracy {entry.score.quality:.3f}"


def print_study(study: Study) -> None:
    """Print all schemes that fit, the best one first."""
    rows = []
    for entry in study.entries:
        tried = entry.score is not None
        rows.append(
            (
                entry.name,
                f"{entry.score.quality:.4f}" if entry.score is not None else "-",
                f"{entry.score.loss:.4f}" if entry.score is not None else "-",
                entry.sram_bytes,
                entry.macs_backward,
                "best" if entry is study.best else "" if tried else "not tried to the end",
            )
        )
    score = study.best.score
    quality = "squared error, negative" if score is not None and score.quality < 0 else "accuracy"
    heads = ("scheme", f"held-out {quality}", "loss", "SRAM bytes", "backward MACs", "")
    print_table(heads, rows)
    proof = "proven best" if study.gap == 0 else f"within {study.gap:.3g} of the best"
    click.echo(f"picks are {proof} if contributions add up; budget {study.budget_bytes:,} bytes")
    if not study.complete:
        click.echo("time was up before the last trial: the same command goes on from here")


def draw(study: Study, training: Training, board_name: str) -> str:
    """The trials as a drawing."""
    marks = [
        Mark(entry.name, entry.sram_bytes, entry.score.quality, entry is study.best)
        for entry in study.entries
        if entry.score is not None
    ]
    title = f"{training.model.name} on {board_name}"
    return render_front(
        marks, title, "SRAM, bytes", "reached on held-out samples", study.budget_bytes
    )
