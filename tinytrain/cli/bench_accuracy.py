"""`tinytrain bench accuracy`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tinytrain.bench.accuracy import (
    DEFAULT_RATE,
    INT8,
    INT16,
    KINDS,
    RATES,
    Plan,
    Row,
    Sweep,
    differences,
    measure,
    sweep,
)
from tinytrain.bench.accuracy_runs import FLOAT32, accuracy_trials
from tinytrain.bench.float_net import import_torch
from tinytrain.bench.tasks import MAIN_TASKS, SCHEMES, TASKS
from tinytrain.cli.options import json_option, zoo_option
from tinytrain.cli.output import print_json, print_table, progress, write_file
from tinytrain.toolchain.cache import cache_dir


@click.command(short_help="Accuracy of int8 training beside float32.")
@zoo_option
@click.option("--task", "tasks", multiple=True, type=click.Choice(list(TASKS)),
              help="Only these; the five main ones unless given.")  # fmt: skip
@click.option("--scheme", "schemes", multiple=True, metavar="SCHEME",
              help=f"Only these; {', '.join(SCHEMES)} unless given.")  # fmt: skip
@click.option("--batch", "batches", multiple=True, type=click.IntRange(1, 256), default=(1,),
              show_default=True, help="Samples a step; may be given more than once.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1, 100), default=3, show_default=True)
@click.option("--no-reference", is_flag=True, help="Leave float32 out; PyTorch is not needed.")
@click.option("--sweep", "sweeping", is_flag=True,
              help="Instead: last:4 and full at all rates, beside plain QAS.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True,
              help="Runs at a time.")  # fmt: skip
@click.option("--cache", type=click.Path(path_type=Path), metavar="FILE",
              help="Keeps each result; what was cut off goes on from there.")  # fmt: skip
@click.option("--write", type=click.Path(path_type=Path), metavar="FILE.json",
              help="Keep the table there.")  # fmt: skip
@json_option
def accuracy(
    zoo: Path,
    tasks: tuple[str, ...],
    schemes: tuple[str, ...],
    batches: tuple[int, ...],
    seeds: int,
    no_reference: bool,
    sweeping: bool,
    workers: int,
    cache: Path | None,
    write: Path | None,
    as_json: bool,
) -> None:
    """Train on real tasks in int8 and in float32 and compare the accuracy on test samples.

    The learning rate of each cell is chosen on a fifth of the training samples. Float32 is the same
    network in PyTorch, with the same samples in the same order, the same schedule and step rule.

    \b
    Example: tinytrain bench accuracy --zoo zoo --task kws_digits --scheme full --batch 1 --batch 8
    """
    trials = accuracy_trials(zoo, cache or cache_dir() / "accuracy.jsonl", workers)
    names = tasks or MAIN_TASKS
    with progress("runs") as advance:
        if sweeping:
            swept = sweep(names, seeds, RATES, trials, advance)
            document: dict[str, Any] = {"rates": [row.as_dict() for row in swept]}
        else:
            kinds = KINDS if not no_reference else (INT16, INT8)
            if not no_reference:
                import_torch()
            plan = Plan(names, schemes or SCHEMES, batches, kinds, seeds)
            rows = measure(plan, trials, advance)
            document = {"rows": [row.as_dict() for row in rows]}
    if write:
        keep(write, document)
    if as_json:
        print_json(document)
    elif sweeping:
        _print_sweep(swept)
    else:
        _print_rows(rows)


def keep(path: Path, document: dict[str, Any]) -> None:
    """Write a part of the table; other parts that the file has stay."""
    kept = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    text = json.dumps({**kept, **document}, indent=1, sort_keys=True) + "\n"
    write_file(path, text.encode())


def _print_rows(rows: Sequence[Row]) -> None:
    heads = ("task", "scheme", "batch", "arithmetic", "rate", "accuracy", "lowest", "highest")
    print_table(
        heads,
        [
            (
                row.task,
                row.scheme,
                row.batch,
                row.kind,
                f"{row.rate:g}",
                f"{row.accuracy['mean']:.1f}",
                f"{row.accuracy['lowest']:.1f}",
                f"{row.accuracy['highest']:.1f}",
            )
            for row in rows
        ],
    )
    for kind in (INT16, INT8):
        found = differences(rows, kind)
        if found:
            worst = min(found, key=lambda cell: found[cell])
            mean = sum(found.values()) / len(found)
            click.echo(
                f"{kind} weight state less {FLOAT32}: {mean:+.2f} points in the mean over"
                f" {len(found)} cells, {found[worst]:+.2f} at worst ({worst[0]} {worst[1]},"
                f" batch {worst[2]})"
            )


def _print_sweep(rows: Sequence[Sweep]) -> None:
    heads = ("task", "scheme", "rate", "step rule", "mean", "lowest", "highest")
    print_table(
        heads,
        [
            (
                row.task,
                row.scheme,
                f"{row.rate:g}",
                "plain QAS" if row.plain else "default",
                f"{row.accuracy['mean']:.1f}",
                f"{row.accuracy['lowest']:.1f}",
                f"{row.accuracy['highest']:.1f}",
            )
            for row in rows
        ],
    )
    click.echo(f"head: at rate {DEFAULT_RATE:g}")
