"""What commands print: one JSON document, or tables for people; progress on stderr.

In: plain data. Out: text on stdout, progress on stderr if it is a terminal, files written at once
or not at all. Must not know what the data means.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tinytrain.errors import UsageError

PIPE_COLUMNS = 160
Advance = Callable[[int, int], None]


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(document, indent=2))


def console() -> Console:
    """The console for stdout; wide where nobody looks, so that no cell is cut."""
    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    return Console(width=width, highlight=False, markup=False, emoji=False)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Print a table; columns whose values are numbers are aligned to the right."""
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for position, header in enumerate(headers):
        numeric = bool(rows) and all(isinstance(row[position], int | float) for row in rows)
        table.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(text(value) for value in row))
    console().print(table)


def print_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    width = max(len(name) for name in fields)
    for name, value in fields.items():
        click.echo(f"{name:<{width}}  {text(value)}")


def text(value: object) -> str:
    """A value for people: thousands separated, shapes with crosses."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list):
        return "x".join(str(item) for item in value)
    return str(value)


@contextmanager
def progress(label: str) -> Iterator[Advance | None]:
    """A progress bar on stderr, as a function of (done, total); None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield advance


@contextmanager
def activity(label: str) -> Iterator[Callable[[str], None] | None]:
    """A sign of life on stderr, as a function of the latest line; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with Console(stderr=True, markup=False, emoji=False).status(label) as status:

        def show(line: str) -> None:
            status.update(Text(f"{label}  {line.strip()}"[: status.console.width - 4]))

        yield show


def refuse_overwriting(output: Path | None, *given: Path | None) -> None:
    """Refuse an output that is nothing, a folder, or one of the files that the command reads.

    Raises:
        UsageError: it is.
    """
    if output is None:
        return
    if output.is_dir():  # an empty name is the present folder
        raise UsageError("bad-output", "cli", "a folder, where a file is to be written",
                         where=str(output), hint="give the name of a file")  # fmt: skip
    if output.exists() and any(p is not None and p.exists() and output.samefile(p) for p in given):
        raise UsageError("bad-output", "cli", "this file is read by the command",
                         where=str(output), hint="give another name for the output")  # fmt: skip


def write_file(path: Path, data: bytes) -> None:
    """Write a file by way of a temporary one beside it, so that it is never half there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".tinytrain-") as staging:
        fresh = Path(staging) / "file"
        fresh.write_bytes(data)
        os.replace(fresh, path)
