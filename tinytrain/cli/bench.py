"""`tinytrain bench`."""

from __future__ import annotations

from pathlib import Path

import click

from tinytrain.bench import MODELS, Count, bench_model, compare_counts, read_counts, write_counts
from tinytrain.bench.counts import as_totals
from tinytrain.boards import get_board
from tinytrain.cli.bench_accuracy import accuracy
from tinytrain.cli.options import json_option, zoo_option
from tinytrain.cli.output import activity, print_json, print_table
from tinytrain.errors import InputError

BOARDS = ("mps2-an386", "mps2-an500")


@click.group(short_help="Instructions and accuracy on reference models and tasks.")
def bench() -> None:
    """Measure on reference models: instructions in QEMU, the same on every machine, and accuracy.

    \b
    Example: tinytrain bench models --zoo zoo --json
    """


bench.add_command(accuracy)


@bench.command()
@zoo_option
@click.option("--board", "boards", multiple=True, default=BOARDS, metavar="NAME")
@click.option(
    "--model",
    "names",
    multiple=True,
    type=click.Choice([model.name for model in MODELS]),
    help="Only these; all unless given.",
)
@click.option("--compare", type=click.Path(path_type=Path, exists=True), metavar="FILE.json",
              help="Fail if a count is more than 2 % above the one kept there.")  # fmt: skip
@click.option("--write", type=click.Path(path_type=Path), metavar="FILE.json",
              help="Keep the counts there.")  # fmt: skip
@json_option
def models(
    zoo: Path,
    boards: tuple[str, ...],
    names: tuple[str, ...],
    compare: Path | None,
    write: Path | None,
    as_json: bool,
) -> None:
    """Count whole models beside the reference figures: inference, or one training step.

    \b
    Example: tinytrain bench models --zoo zoo --model kws --compare bench/counts.json
    """
    if not (zoo / "models").is_dir():
        raise InputError("no-zoo", "bench", "no folder of models", where=str(zoo),
                         hint="give --zoo or set TINYTRAIN_ZOO")  # fmt: skip
    counts = []
    for name in boards:
        for model in MODELS:
            if not names or model.name in names:
                with activity(f"{model.name} on {name}"):
                    counts.append(bench_model(model, get_board(name), zoo))
    totals = as_totals(counts)
    worse = compare_counts(read_counts(compare), totals) if compare else []
    if write:
        write_counts(totals, write)
    if as_json:
        print_json({"counts": totals, "worse": worse})
    else:
        _print(counts)
        for line in worse:
            click.echo(f"worse: {line}", err=True)
    if worse:
        raise click.exceptions.Exit(1)


def _print(counts: list[Count]) -> None:
    by_name = {model.name: model for model in MODELS}
    rows = []
    for count in counts:
        model = by_name[count.name]
        reference, limit = dict(model.reference), dict(model.limit)
        rows.append(
            (
                count.name,
                count.board,
                count.instructions,
                count.backward,
                reference[count.core],
                limit[count.core],
                count.arena_bytes,
            )
        )
    heads = ("model", "board", "instructions", "of them backward", "reference", "limit", "arena")
    print_table(heads, rows)
