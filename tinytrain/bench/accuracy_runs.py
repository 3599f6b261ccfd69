"""One training run of the accuracy benchmark, in int8 or in float32.

In: a `Job` and the folder of the zoo. Out: its accuracy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tinytrain.bench.tasks import TASKS
from tinytrain.interp import mean_squares
from tinytrain.numeric import PROFILE
from tinytrain.passes.fold_pad import fold_pad
from tinytrain.pipeline import (
    CALIBRATION_SAMPLES,
    RunOptions,
    Training,
    read_data,
    simulate,
    start_run,
)
from tinytrain.reader import read
from tinytrain.reader.dataset import Dataset
from tinytrain.search import Score, Trials
from tinytrain.train import TrainOptions, attach_loss, parse_scheme

FLOAT32 = "float32 reference"
VALIDATION_FRACTION = 0.2
_SPLIT_SEED = 20240


@dataclass(frozen=True)
class Job:
    """A run.

    Attributes:
        task: name of a task.
        scheme: a preset or the name of one of the task's own schemes.
        kind: `FLOAT32`, or the weight state of an int8 run.
        batch: samples a step.
        rate: largest learning rate, cosine.
        seed: of order, rounding, fresh head and, on the validation split, the split.
        validation: train on four fifths of the training samples, judge on the last one.
        plain: quantization-aware scaling alone: no division by the mean square, no bound.
    """

    task: str
    scheme: str
    kind: str
    batch: int
    rate: float
    seed: int
    validation: bool = False
    plain: bool = False

    @property
    def key(self) -> str:
        """What makes a result: the job, the defaults of training, the numeric profile."""
        options = asdict(self.options)
        epochs = TASKS[self.task].epochs
        return json.dumps([asdict(self), options, epochs, PROFILE], sort_keys=True)

    @property
    def options(self) -> TrainOptions:
        """The options of training."""
        task = TASKS[self.task]
        options = TrainOptions(classes=task.classes, batch=self.batch, seed=self.seed)
        if self.kind != FLOAT32:
            options = replace(options, weight_state=self.kind)
        return replace(options, normalize=False, tau=0.0) if self.plain else options


def run_job(job: Job, zoo: Path) -> float:
    """Train and judge; returns the accuracy in [0, 1]."""
    task = TASKS[job.task]
    path, data = task.files(zoo)
    training = Training(path, task.schemes.get(job.scheme, job.scheme), job.options)
    options = RunOptions(epochs=task.epochs, learning_rate=job.rate, seed=job.seed)
    dataset = _dataset(path, data, job)
    if job.kind != FLOAT32:
        result = simulate(start_run(training, dataset, options))
        assert result.accuracy_after is not None
        return result.accuracy_after
    return _run_float(training, dataset, options)


def _dataset(path: Path, data: Path, job: Job) -> Dataset:
    dataset = read_data(data, read(path), job.options)
    if not job.validation:
        return dataset
    order = np.random.default_rng(_SPLIT_SEED + job.seed).permutation(len(dataset.x_train))
    held = max(1, round(len(order) * VALIDATION_FRACTION))
    kept, held_out = order[:-held], order[-held:]
    return replace(
        dataset,
        x_train=dataset.x_train[kept],
        y_train=dataset.y_train[kept],
        x_test=dataset.x_train[held_out],
        y_test=dataset.y_train[held_out],
    )


def _run_float(training: Training, data: Dataset, run: RunOptions) -> float:
    from tinytrain.bench.float_train import FloatTrainer
    from tinytrain.train.schedule import learning_rates, sample_order

    options = training.options
    model = read(training.model)
    squares = mean_squares(model, data.x_train[:CALIBRATION_SAMPLES])
    graph = attach_loss(fold_pad(model), options, squares)
    trainer = FloatTrainer(graph, parse_scheme(training.scheme, graph), options, squares)
    order = sample_order(len(data.x_train), run.epochs, options.batch, run.seed)
    rates = learning_rates(run.learning_rate, len(order), run.schedule, run.warmup)
    trainer.train(data.x_train, data.y_train, rates, order)
    return trainer.evaluate(data.x_test, data.y_test)


def accuracy_trials(zoo: Path, kept: Path, workers: int) -> Trials[Job]:
    """Runs of jobs, of which the results that `kept` holds are not run again."""
    return Trials(partial(_judge, zoo), kept, workers, key=lambda job: job.key)


def _judge(zoo: Path, job: Job) -> Score:
    return Score(run_job(job, zoo))


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Mean and spread, in points."""
    points = [round(100 * value, 2) for value in values]
    return {
        "mean": round(float(np.mean(points)), 2),
        "lowest": min(points),
        "highest": max(points),
        "values": points,
    }
