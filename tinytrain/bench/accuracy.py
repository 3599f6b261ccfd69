"""Accuracy of int8 training beside float32 on the same network, samples and schedule.

In: tasks, schemes, seeds. Out: `Row` values: for each task, scheme, batch and kind of arithmetic
the learning rate that a validation split chose, and the accuracy on the test samples. The test
samples choose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytrain.bench.accuracy_runs import FLOAT32, Job, summary
from tinytrain.search import Score, Trials

RATES = (0.003, 0.01, 0.03)
DEFAULT_RATE = 0.01
INT16, INT8 = "int16", "int8"
KINDS = (FLOAT32, INT16, INT8)
_SPLITS, _HEAD_SPLITS = 3, 5  # of the training samples; a head is cheap, and its curve flat
_ONE_SPLIT = ("kws_digits",)  # of 600 samples, enough to tell rates apart
_REACH = {FLOAT32: FLOAT32, INT16: INT16, INT8: INT16}  # whose validation chooses the rate

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Plan:
    """What to measure; `kinds` of `KINDS`."""

    tasks: Sequence[str]
    schemes: Sequence[str]
    batches: Sequence[int] = (1,)
    kinds: Sequence[str] = KINDS
    seeds: int = 3
    rates: Sequence[float] = RATES

    def cells(self) -> list[tuple[str, str, int, str]]:
        """(task, scheme, batch, kind) of every row."""
        return [
            (task, scheme, batch, kind)
            for task in self.tasks
            for scheme in self.schemes
            for batch in self.batches
            for kind in self.kinds
        ]


@dataclass(frozen=True)
class Row:
    """A cell of the table: accuracies in points over the seeds."""

    task: str
    scheme: str
    batch: int
    kind: str
    rate: float
    accuracy: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self)}


def measure(plan: Plan, trials: Trials[Job], progress: Progress | None = None) -> list[Row]:
    """Run what is not known yet; a row for every cell.

    Raises:
        InputError: a file of the zoo is missing. ToolError: PyTorch is, and is asked for.
    """
    cells = plan.cells()
    validation = {cell: _validation(plan, cell) for cell in cells}
    jobs = [job for by_rate in validation.values() for some in by_rate.values() for job in some]
    known = trials.scores(jobs, progress)
    chosen = {cell: _choose(by_rate, known) for cell, by_rate in validation.items()}
    tests = {cell: _tests(plan, cell, rate) for cell, rate in chosen.items()}
    reached = trials.scores([job for some in tests.values() for job in some], progress)
    return [
        Row(*cell, chosen[cell], summary([reached[job].quality for job in some]))
        for cell, some in tests.items()
    ]


def _validation(plan: Plan, cell: tuple[str, str, int, str]) -> dict[float, list[Job]]:
    task, scheme, batch, kind = cell
    splits = 1 if task in _ONE_SPLIT else _SPLITS
    splits = _HEAD_SPLITS if scheme == "head" else splits
    return {
        rate: [Job(task, scheme, _REACH[kind], batch, rate, s, True) for s in range(splits)]
        for rate in plan.rates
    }


def _choose(jobs: Mapping[float, Sequence[Job]], known: Mapping[Job, Score]) -> float:
    """The rate of the highest mean; of equal ones the one nearest to the default."""
    means = {
        rate: float(np.mean([known[job].quality for job in some])) for rate, some in jobs.items()
    }
    best = max(means.values())
    equal = [rate for rate, mean in means.items() if mean > best - 1e-9]
    return min(equal, key=lambda rate: abs(np.log(rate / DEFAULT_RATE)))


def _tests(plan: Plan, cell: tuple[str, str, int, str], rate: float) -> list[Job]:
    task, scheme, batch, kind = cell
    return [Job(task, scheme, kind, batch, rate, seed) for seed in range(plan.seeds)]


def differences(rows: Sequence[Row], kind: str) -> dict[tuple[str, str, int], float]:
    """(task, scheme, batch) -> mean of `kind` minus that of float32, in points."""
    by_cell = {(r.task, r.scheme, r.batch, r.kind): r.accuracy["mean"] for r in rows}
    return {
        key[:3]: round(value - by_cell[(*key[:3], FLOAT32)], 2)
        for key, value in by_cell.items()
        if key[3] == kind and (*key[:3], FLOAT32) in by_cell
    }


# ---- safety of the defaults ----


@dataclass(frozen=True)
class Sweep:
    """Accuracies of one scheme at one rate, by seed, in points; `plain` is QAS without bound."""

    task: str
    scheme: str
    rate: float
    plain: bool
    accuracy: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self)}


def sweep(
    tasks: Sequence[str],
    seeds: int,
    rates: Sequence[float],
    trials: Trials[Job],
    progress: Progress | None = None,
) -> list[Sweep]:
    """`last:4` and `full` over rates and seeds, by default and with plain QAS, beside `head`."""
    cells = [
        (task, scheme, rate, plain)
        for task in tasks
        for scheme in ("last:4", "full")
        for rate in rates
        for plain in (False, True)
    ]
    cells += [(task, "head", DEFAULT_RATE, False) for task in tasks]
    jobs = {
        cell: [Job(cell[0], cell[1], INT16, 1, cell[2], s, plain=cell[3]) for s in range(seeds)]
        for cell in cells
    }
    reached = trials.scores([job for some in jobs.values() for job in some], progress)
    return [
        Sweep(*cell, summary([reached[job].quality for job in some])) for cell, some in jobs.items()
    ]
