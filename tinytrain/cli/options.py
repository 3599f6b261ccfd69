"""Options that several commands share, and how they become the rooms' own option types.

In: command-line values. Out: `Training`, `RunOptions`, handed to the command as one argument each.
Must not know what is done with them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tinytrain.boards import OPTIMIZATIONS
from tinytrain.pipeline import RunOptions, Training
from tinytrain.train import TrainOptions
from tinytrain.train.options import LOSSES, MAX_MOMENTUM, ROUNDINGS, VELOCITY_STATES, WEIGHT_STATES
from tinytrain.train.schedule import SCHEDULES
from tinytrain.train.scheme import PRESETS

Command = Callable[..., None]
Decorator = Callable[[Command], Command]
MAX_SEED = 2**32 - 1

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of tables."
)
board_option = click.option(
    "--board", "board_name", required=True, metavar="NAME", help="See: tinytrain boards."
)
zoo_option = click.option(
    "--zoo",
    type=click.Path(path_type=Path),
    default=lambda: Path(os.environ.get("TINYTRAIN_ZOO", "../shared/zoo")),
    help="Folder with models/ and tasks/; default $TINYTRAIN_ZOO.",
)
optimize_option = click.option(
    "--optimize",
    type=click.Choice(list(OPTIMIZATIONS)),
    default="speed",
    show_default=True,
    help="What the firmware is compiled for.",
)
model_argument = click.argument("model", type=click.Path(path_type=Path))


def data_option(*, required: bool, why: str) -> Decorator:
    """The option ``--data``."""
    return click.option(
        "--data",
        type=click.Path(path_type=Path),
        required=required,
        metavar="FILE.npz",
        help=f"Arrays x_train, y_train, x_test, y_test{why}. int8 samples are taken as they "
        "are; float is quantized; uint8 pixels stand for 0 to 1, or for 0 to 255 where the "
        "model's input reaches that far.",
    )


def number_option(
    *names: str, default: float, help: str, above_zero: bool = False, below: float = math.inf
) -> Decorator:
    """An option for a finite number, at least (or above) 0 and below an optional limit."""

    def check(ctx: click.Context, param: click.Parameter, value: float) -> float:
        enough = value > 0 if above_zero else value >= 0
        if enough and value < below:
            return value
        lowest = "above 0" if above_zero else "at least 0"
        limit = "finite" if math.isinf(below) else f"below {below:g}"
        raise click.BadParameter(f"{value} is not {lowest} and {limit}", ctx, param)

    return click.option(
        *names, type=float, callback=check, default=default, show_default=True, help=help
    )


_TRAINING: tuple[Decorator, ...] = (
    model_argument,
    click.option("--scheme", default=Training.scheme, show_default=True, help=f"{PRESETS}."),
    click.option(
        "--classes",
        type=click.IntRange(2, 4096),
        metavar="N",
        help="Replace the classifier by a fresh one of N classes.",
    ),
    click.option("--loss", type=click.Choice(LOSSES), default=TrainOptions.loss, show_default=True),
    click.option(
        "--weight-state",
        type=click.Choice(WEIGHT_STATES),
        default=TrainOptions.weight_state,
        show_default=True,
        help="How a trained weight is kept in RAM.",
    ),
    click.option(
        "--rounding",
        type=click.Choice(ROUNDINGS),
        default=TrainOptions.rounding,
        show_default=True,
        help="Of errors, and of what goes into weights, biases and velocities.",
    ),
    click.option(
        "--batch",
        type=click.IntRange(1, 256),
        default=TrainOptions.batch,
        show_default=True,
        help="Samples whose gradients are added up before a step; takes RAM above 1.",
    ),
    number_option(
        "--tau",
        default=TrainOptions.tau,
        below=1e6,
        help="Largest step of a weight tensor relative to its norm, a sample; 0: no bound.",
    ),
    click.option(
        "--step-rule",
        type=click.Choice(["normalized", "plain"]),
        default="normalized",
        show_default=True,
        help="normalized: divided by the mean square of a layer's input; plain: SGD in real units.",
    ),
    number_option(
        "--momentum",
        default=TrainOptions.momentum,
        below=MAX_MOMENTUM,
        help="Share of the last step's velocity that is taken again; takes RAM above 0.",
    ),
    click.option(
        "--momentum-state",
        type=click.Choice(VELOCITY_STATES),
        default=TrainOptions.momentum_state,
        show_default=True,
        help="How the velocity of a weight is kept in RAM.",
    ),
    number_option(
        "--weight-decay",
        default=TrainOptions.weight_decay,
        below=1.0,
        help="Times the rate: part of each trained weight that a step takes off it.",
    ),
    number_option(
        "--label-smoothing",
        default=TrainOptions.label_smoothing,
        below=1.0,
        help="Part of the target that is spread over all classes.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, MAX_SEED),
        default=TrainOptions.seed,
        show_default=True,
        help="Of a fresh classifier, the order of samples, and rounding.",
    ),
)
_RUN: tuple[Decorator, ...] = (
    click.option("--epochs", type=click.IntRange(1), default=RunOptions.epochs, show_default=True),
    number_option(
        "--lr",
        "learning_rate",
        default=RunOptions.learning_rate,
        above_zero=True,
        below=1e6,
        help="Largest learning rate.",
    ),
    click.option(
        "--schedule",
        type=click.Choice(SCHEDULES),
        default=RunOptions.schedule,
        show_default=True,
    ),
    number_option(
        "--warmup",
        default=RunOptions.warmup,
        below=1.0,
        help="Fraction of the steps over which the rate rises from 0.",
    ),
)


_CHOSEN = (
    "classes",
    "loss",
    "weight_state",
    "rounding",
    "batch",
    "tau",
    "label_smoothing",
    "momentum",
    "momentum_state",
    "weight_decay",
)


def training_options(command: Command) -> Command:
    """MODEL and all options that shape the training graph, handed over as `training`."""

    @wraps(command)
    def wrapped(*, model: Path, scheme: str, step_rule: str, seed: int, **given: Any) -> None:
        chosen = {name: given.pop(name) for name in _CHOSEN}
        options = TrainOptions(normalize=step_rule == "normalized", seed=seed, **chosen)
        command(training=Training(model, scheme, options), **given)

    return _apply(wrapped, _TRAINING)


def run_options(command: Command) -> Command:
    """The options of a training run, handed over as `run` (goes below `training_options`)."""

    @wraps(command)
    def wrapped(
        *,
        training: Training,
        epochs: int,
        learning_rate: float,
        schedule: str,
        warmup: float,
        **given: Any,
    ) -> None:
        run = RunOptions(epochs, learning_rate, schedule, warmup, training.options.seed)
        command(training=training, run=run, **given)

    return _apply(wrapped, _RUN)


def device_run_options(command: Command) -> Command:
    """The options of a run on a device whose training is built in, handed over as `run`."""

    @wraps(command)
    def wrapped(
        *, epochs: int, learning_rate: float, schedule: str, warmup: float, seed: int, **given: Any
    ) -> None:
        command(run=RunOptions(epochs, learning_rate, schedule, warmup, seed), **given)

    seed_option = click.option(
        "--seed",
        type=click.IntRange(0, MAX_SEED),
        default=RunOptions.seed,
        show_default=True,
        help="Of the order of samples, and rounding.",
    )
    return _apply(wrapped, (*_RUN, seed_option))


def _apply(command: Command, decorators: Sequence[Decorator]) -> Command:
    """Apply decorators so that help lists them in the order in which they are given."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command
