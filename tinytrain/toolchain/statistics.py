"""What single training steps do: saturated errors, weights that moved, weights at their bound.

In: a simulator in the middle of a run, a sample. Out: `TensorStatistics`. The step is taken by
another simulator that is given the same state, so the run itself is not touched: statistics cost
the device nothing and change no bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.toolchain.simulator import Progress, Simulator

Array = npt.NDArray[Any]

ERROR_MAX = 127
WEIGHT_MAX = 127
_EXACT = ("cross_entropy_error", "mean_squared_error")  # their largest element is always 127
_BOUND = "_bound"
_FRACTION, _MASTER, _SLICE = "_fraction", "_master", "_trained"


@dataclass(frozen=True)
class ErrorStatistics:
    """An error tensor: the fraction of its elements that are saturated, and that are 0."""

    name: str
    saturated: float
    zero: float


@dataclass(frozen=True)
class WeightStatistics:
    """A trained weight tensor, per step.

    Attributes:
        changed: fraction of the weights of which anything changed, fractions of a unit included.
        at_bound: fraction of the weights at +-127.
        update_ratio: norm of the change over the norm of the weights.
    """

    name: str
    changed: float
    at_bound: float
    update_ratio: float


@dataclass(frozen=True)
class TensorStatistics:
    """Means over the steps that were looked at."""

    steps: int
    errors: tuple[ErrorStatistics, ...]
    weights: tuple[WeightStatistics, ...]

    def fractions(self) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
        """By tensor name: saturated errors, changed weights, weights at their bound."""
        return (
            {e.name: e.saturated for e in self.errors},
            {w.name: w.changed for w in self.weights},
            {w.name: w.at_bound for w in self.weights},
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "steps": self.steps,
            "errors": [vars(e) for e in self.errors],
            "weights": [vars(w) for w in self.weights],
        }


class Probe:
    """Looks at single steps of a run.

    Args:
        simulator: the run; nothing of it is changed.
        batch: of the run.
    """

    def __init__(self, simulator: Simulator, seed: int, batch: int) -> None:
        self._run = simulator
        self._twin = Simulator(simulator.project.files)
        self._twin.set_seed(seed)
        self._batch = batch
        project = simulator.project
        names = [name for name, place in project.tensors.items() if place.role == "state"]
        # of a partly trained tensor only the trained slice is a state
        bases = [n[: -len(_BOUND)] for n in names if n.endswith(_BOUND)]
        self._pairs = {n: (n if n in names else n + _SLICE, n) for n in bases}
        self._errors = [
            name
            for op in project.ops
            if op.phase == "backward" and op.kind.endswith("error") and op.kind not in _EXACT
            for name in op.outputs
            if project.tensors[name].dtype == "int8" and project.tensors[name].role != "state"
        ]
        self._seen: dict[str, list[tuple[float, ...]]] = {}
        self._steps = 0

    def look(self, samples: Array, targets: Array, rate: float) -> None:
        """Take the step that the run is about to take, and note what it does.

        Args:
            samples: int8 [batch, ...]. targets: [batch]. rate: of the step.
        """
        twin = self._twin
        twin.set_state(self._run.state())
        twin.step_index = self._run.step_index
        twin.set_batch(self._batch)
        before = {name: self._value(*pair) for name, pair in self._pairs.items()}
        seen: Mapping[str, Array] = {}
        for sample, target in zip(samples, targets, strict=True):
            seen = twin.trace(sample, target, train=True, rate=rate)
        self._steps += 1
        for name in dict.fromkeys(self._errors):
            value = np.abs(seen[name].astype(np.int32))
            self._note(name, np.mean(value >= ERROR_MAX), np.mean(value == 0))
        for name, old in before.items():
            new = self._value(*self._pairs[name])
            norm = max(float(np.linalg.norm(old)), 1e-12)
            held = np.abs(twin.values(self._pairs[name][0]).astype(np.int32)) >= WEIGHT_MAX
            change = float(np.linalg.norm(new - old)) / norm
            self._note(name, np.mean(new != old), np.mean(held), change)

    def statistics(self) -> TensorStatistics:
        """Means over what was looked at."""
        means = {name: np.mean(rows, axis=0) for name, rows in self._seen.items()}
        errors = (n for n in dict.fromkeys(self._errors) if n in means)
        weights = (n for n in self._pairs if n in means)
        return TensorStatistics(
            self._steps,
            tuple(ErrorStatistics(n, *map(float, means[n])) for n in errors),
            tuple(WeightStatistics(n, *map(float, means[n])) for n in weights),
        )

    def _note(self, name: str, *values: Any) -> None:
        self._seen.setdefault(name, []).append(tuple(float(v) for v in values))

    def _value(self, name: str, base: str) -> Array:
        """Weights with what their state holds below one unit."""
        weights = self._twin.values(name).astype(np.float64)
        tensors = self._twin.project.tensors
        for suffix, unit in ((_FRACTION, 1 / 256), (_MASTER, None)):
            place = tensors.get(base + suffix)
            if place is not None and place.shape == weights.shape:
                held = self._twin.values(base + suffix).astype(np.float64)
                return weights + held * unit if unit is not None else held
        return weights


def points(steps: int, batch: int, count: int) -> list[int]:
    """Where to look: indices of first samples of a batch, evenly over a run."""
    whole = steps // batch
    chosen: Iterable[int] = np.linspace(0, whole - 1, min(count, whole)).round().astype(int)
    return [int(index) * batch for index in dict.fromkeys(chosen)]


def train_watched(
    simulator: Simulator,
    x: Array,
    targets: Array,
    rates: Array,
    order: Array,
    *,
    batch: int,
    seed: int,
    looks: int,
    progress: Progress | None = None,
) -> tuple[npt.NDArray[np.float32], TensorStatistics]:
    """As `Simulator.train`, with a look at some of the steps; the run ends with the same bits.

    Args:
        looks: how many steps to look at, evenly over the run.

    Returns:
        The losses, and what was seen.
    """
    probe = Probe(simulator, seed, batch)
    starts = points(len(order), batch, looks)
    ends = [*starts[1:], len(order)]
    losses = [simulator.train(x, targets, rates[: starts[0]], order=order[: starts[0]])]
    for start, end in zip(starts, ends, strict=True):
        first = order[start : start + batch]
        probe.look(x[first], targets[first], float(rates[start]))
        losses.append(simulator.train(x, targets, rates[start:end], order=order[start:end]))
        if progress is not None:
            progress(end, len(order))
    return np.concatenate(losses), probe.statistics()
