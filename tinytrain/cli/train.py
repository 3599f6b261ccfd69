"""`tinytrain train`: a device learns from a data file, sample by sample over its link."""

from __future__ import annotations

import hashlib
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tinytrain.cli.device import Choice, connect, device_data, device_options
from tinytrain.cli.options import data_option, device_run_options, json_option
from tinytrain.cli.output import print_fields, print_json
from tinytrain.cli.start import INTERRUPTED
from tinytrain.errors import UsageError
from tinytrain.pipeline import RunOptions
from tinytrain.reader.dataset import Dataset
from tinytrain.toolchain.link import Hello, Link, StepReport
from tinytrain.train.schedule import learning_rates, sample_order

WINDOW = 100  # steps over which loss and accuracy are averaged

Show = Callable[[StepReport], None]


@click.command(short_help="Train a device over its link.")
@device_options
@data_option(required=True, why="")
@device_run_options
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Take only N samples.")
@click.option(
    "--batch", type=click.IntRange(1, 256), metavar="N",
    help="Add up the gradients of N samples before a step; the firmware must be compiled with "
    "--batch. Unless given, the device goes on as it is.",
)  # fmt: skip
@click.option(
    "--test", type=click.IntRange(0), default=200, show_default=True, metavar="N",
    help="Test samples to judge by, before and after; 0: none.",
)  # fmt: skip
@click.option("--fresh", is_flag=True, help="Begin with the initial state, not the saved one.")
@click.option("--no-save", is_flag=True, help="Do not save the state on the device afterwards.")
@json_option
@click.pass_context
def train(
    ctx: click.Context,
    device: Choice,
    data: Path,
    run: RunOptions,
    steps: int | None,
    batch: int | None,
    test: int,
    fresh: bool,
    no_save: bool,
    as_json: bool,
) -> None:
    """Train on a board, in QEMU, or in this process; the device saves what it has learned.

    Ctrl-C stops after the samples that are on their way: the device has learned each of them
    exactly once, and is saved.

    \b
    Example: tinytrain train --port /dev/ttyACM0 --data data.npz
    """
    with connect(device) as link:
        chosen = _batch(link.hello, batch)
        dataset = device_data(data, link.hello, device.project)
        if fresh:
            link.reset()
        document = train_device(link, dataset, run, steps, test, chosen)
        if link.hello.has_storage and not no_save:
            document["saved"] = link.save().sequence
    if as_json:
        print_json(document)
    else:
        print_fields(_for_people(document))
    if document["interrupted"]:
        ctx.exit(INTERRUPTED)


def train_device(
    link: Link, dataset: Dataset, run: RunOptions, steps: int | None, test: int, batch: int = 1
) -> dict[str, Any]:
    """Train and judge; what is reported."""
    hello = link.hello
    x, y = dataset.x_train, dataset.y_train
    epochs = run.epochs if steps is None else -(-steps // len(x))
    order = sample_order(len(x), epochs, batch, run.seed)
    if steps is not None:
        order = order[: max(batch, steps // batch * batch)]
    rates = learning_rates(run.learning_rate, len(order), run.schedule, run.warmup)
    link.configure(
        seed=run.seed, step_index=link.statistics().step_index, batch=batch if hello.batches else 0
    )
    before = _judge(link, dataset, test)
    reports: list[StepReport] = []
    started = time.perf_counter()
    with _interrupt_flag() as stop, progress_bar(len(order), y, order) as show:

        def watch(report: StepReport) -> None:
            reports.append(report)
            if show is not None:
                show(report)

        losses = link.train(x, y, rates, order=order, on_step=watch, stop=lambda: stop[0])
    seconds = time.perf_counter() - started
    after = before if stop[0] else _judge(link, dataset, test)
    tail = losses[-max(1, len(losses) // 10) :]
    counters = link.statistics()
    return {
        "device": hello.name,
        "scheme": hello.scheme,
        "fingerprint": f"{hello.fingerprint:08x}",
        "judged_by": "accuracy" if hello.target == "class" else "squared_error",
        "before": before,
        "after": after,
        "loss": float(np.mean(tail)) if len(losses) else None,
        "saturation": saturation(reports[-len(tail) :]),
        "batch": batch,
        "steps": len(losses),
        "step_index": counters.step_index,
        "samples_per_second": len(losses) / max(seconds, 1e-9),
        "device_step_ms": 1000 * counters.ticks / counters.ticks_hz if counters.ticks_hz else None,
        "sent_again": link.sent_again,
        "state_sha256": hashlib.sha256(link.state()).hexdigest(),
        "interrupted": stop[0],
    }


def saturation(reports: Iterable[StepReport]) -> float | None:
    """The part of the error tensors that were cut at their range; None where there were none."""
    errors = cut = 0
    for report in reports:
        errors, cut = errors + report.errors, cut + report.saturated
    return cut / errors if errors else None


def _batch(hello: Hello, batch: int | None) -> int:
    """The samples of a step: as chosen, else as the device has it."""
    if batch is None or batch == hello.batch:
        return hello.batch
    if not hello.batches:
        raise UsageError(
            "no-batch",
            "cli",
            "the device's program updates after each sample and has no memory for a batch",
            hint=f"compile it with --batch {batch}, and flash it",
        )
    return batch


def _judge(link: Link, dataset: Dataset, test: int) -> float | None:
    if test == 0:
        return None
    found = link.evaluate(dataset.x_test[:test], dataset.y_test[:test])
    if link.hello.target == "class":
        return found.correct / found.samples
    return float(found.mean_score) * link.hello.output_scale**2


def _for_people(document: dict[str, Any]) -> dict[str, object]:
    what = document["judged_by"].replace("_", " ")
    fields: dict[str, object] = {"device": f"{document['device']} {document['fingerprint']}"}
    if document["before"] is not None:
        fields[f"{what} before"] = f"{document['before']:.4f}"
    if document["after"] is not None and not document["interrupted"]:
        fields[f"{what} after"] = f"{document['after']:.4f}"
    if document["loss"] is not None:
        fields["training loss"] = f"{document['loss']:.4f} (mean of the last tenth)"
    if document["saturation"] is not None:
        fields["saturation"] = f"{document['saturation']:.1%} of the error tensors there"
    fields["steps"] = f"{document['steps']:,}, {document['step_index']:,} in the device's life"
    fields["speed"] = f"{document['samples_per_second']:,.1f} samples a second"
    if document["sent_again"]:
        fields["sent again"] = document["sent_again"]
    fields["state"] = f"sha256 {document['state_sha256']}"
    fields["saved"] = f"as number {document['saved']}" if "saved" in document else "no"
    if document["interrupted"]:
        fields["stopped"] = "by Ctrl-C; each step above was taken exactly once"
    return fields


@contextmanager
def _interrupt_flag() -> Iterator[list[bool]]:
    """A flag that the first Ctrl-C sets; the second one ends the command as usual."""
    flag = [False]

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        flag[0] = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        former = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: nobody presses keys
        yield flag
        return
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, former)


@contextmanager
def progress_bar(total: int, targets: Any, order: Any) -> Iterator[Show | None]:
    """Loss, accuracy, saturation and speed on stderr, as a function of a step's report."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("training"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"), TimeRemainingColumn(),
    )  # fmt: skip
    losses: deque[float] = deque(maxlen=WINDOW)
    hits: deque[bool] = deque(maxlen=WINDOW)
    recent: deque[StepReport] = deque(maxlen=WINDOW)
    started = time.perf_counter()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=total, figures="")
        labels = np.asarray(targets).ndim == 1
        done = 0

        def show(report: StepReport) -> None:
            nonlocal done
            losses.append(report.loss)
            recent.append(report)
            figures = f"loss {np.mean(losses):.4f}"
            if labels:
                hits.append(report.best == int(targets[order[done]]))
                figures += f"  accuracy {np.mean(hits):.3f}"
            if (cut := saturation(recent)) is not None:
                figures += f"  saturated {cut:.1%}"
            done += 1
            speed = done / max(time.perf_counter() - started, 1e-9)
            bar.update(task, completed=done, figures=f"{figures}  {speed:,.1f} samples/s")

        yield show
