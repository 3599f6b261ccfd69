"""`tinytrain bench`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from tinytrain.bench import MODELS, Count, bench_model, compare_counts, read_counts, write_counts
from tinytrain.bench.counts import as_totals, kernel_totals
from tinytrain.bench.kernels import LAYERS, LIMIT, KernelCount, bench_layer
from tinytrain.boards import get_board, optimized
from tinytrain.cli.bench_accuracy import accuracy
from tinytrain.cli.options import json_option, optimize_option, zoo_option
from tinytrain.cli.output import activity, print_json, print_table
from tinytrain.errors import InputError

BOARDS = ("mps2-an386", "mps2-an500")


@click.group(short_help="Instructions and accuracy on reference models and tasks.")
def bench() -> None:
    """Measure on reference models and layers: instructions in QEMU, the same on every machine, and
    accuracy.

    \b
    Example: tinytrain bench models --zoo zoo --json
    """


bench.add_command(accuracy)

boards_option = click.option("--board", "boards", multiple=True, default=BOARDS, metavar="NAME")
compare_option = click.option(
    "--compare",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE.json",
    help="Fail if a count is more than 2 % above the one kept there.",
)
write_option = click.option(
    "--write", type=click.Path(path_type=Path), metavar="FILE.json", help="Keep the counts there."
)


@bench.command()
@zoo_option
@boards_option
@click.option(
    "--model",
    "names",
    multiple=True,
    type=click.Choice([model.name for model in MODELS]),
    help="Only these; all unless given.",
)
@optimize_option
@compare_option
@write_option
@json_option
def models(
    zoo: Path,
    boards: tuple[str, ...],
    names: tuple[str, ...],
    optimize: str,
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
    if optimize != "speed" and (compare or write):
        raise click.UsageError("counts are kept for --optimize speed only")
    counts = []
    for name in boards:
        for model in MODELS:
            if not names or model.name in names:
                with activity(f"{model.name} on {name}"):
                    board = optimized(get_board(name), optimize)
                    counts.append(bench_model(model, board, zoo))
    _finish(as_totals(counts), compare, write, None if as_json else lambda: _print(counts))


@bench.command()
@boards_option
@click.option(
    "--layer",
    "names",
    multiple=True,
    type=click.Choice([layer.name for layer in LAYERS]),
    help="Only these; all unless given.",
)
@click.option("--portable", is_flag=True, help="Count the portable kernels as well.")
@compare_option
@write_option
@json_option
def kernels(
    boards: tuple[str, ...],
    names: tuple[str, ...],
    portable: bool,
    compare: Path | None,
    write: Path | None,
    as_json: bool,
) -> None:
    """Count single layers beside the reference figures, each kernel forward and backward.

    \b
    Example: tinytrain bench kernels --board mps2-an386 --portable
    """
    counts: list[KernelCount] = []
    for name in boards:
        for layer in LAYERS:
            for plain in (False, True) if portable else (False,):
                if not names or layer.name in names:
                    with activity(f"{layer.name} on {name}"):
                        counts += bench_layer(layer, get_board(name), portable=plain)
    _finish(kernel_totals(counts), compare, write, None if as_json else lambda: _table(counts))


def _finish(
    totals: dict[str, int],
    compare: Path | None,
    write: Path | None,
    show: Callable[[], None] | None,
) -> None:
    """Print, keep and compare; exit with 1 where a count has grown."""
    worse = compare_counts(read_counts(compare), totals) if compare else []
    if write:
        write_counts(totals, write)
    if show is None:
        print_json({"counts": totals, "worse": worse})
    else:
        show()
        for line in worse:
            click.echo(f"worse: {line}", err=True)
    if worse:
        raise click.exceptions.Exit(1)


def _table(counts: list[KernelCount]) -> None:
    rows = [
        (
            count.layer,
            count.operator,
            count.board,
            count.kernels,
            count.macs,
            count.instructions,
            f"{count.instructions / count.macs:.2f}" if count.macs else "-",
            count.text_bytes,
            f"{count.reference:,}" if count.reference else "-",
            f"{count.instructions / count.reference:.2f}" if count.reference else "-",
        )
        for count in counts
    ]
    heads = ("layer", "kernel", "board", "set", "MACs", "instructions", "a MAC", "text",
             "reference", f"ratio (limit {LIMIT})")  # fmt: skip
    print_table(heads, rows)


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
                count.code_bytes,
            )
        )
    heads = (
        "model",
        "board",
        "instructions",
        "of them backward",
        "reference",
        "limit",
        "arena",
        "code",
    )
    print_table(heads, rows)
