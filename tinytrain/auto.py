"""The scheme `auto`: which biases, layers and channels to train on a board, found by trials.

In: a model, samples, a board. Out: a `Study`: schemes with what they gain and what they take, the
best one as a scheme file. It knows the order of a search's stages, as the pipeline knows that of a
build:

1. every bias prefix and every layer's weights at several ratios are trained for a few steps, each
   alone with the head; what the loss on held-out samples falls is their contribution;
2. the exact front of gains against bytes, if both added up;
3. its picks are planned for real: what fits the board by its true peak goes on, with the presets;
4. the better half of those goes on from round to round, trained in full.

The test samples are never looked at.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tinytrain.boards import Board
from tinytrain.errors import InputError
from tinytrain.interp import mean_squares
from tinytrain.ir import Graph
from tinytrain.numeric import PROFILE
from tinytrain.passes.fold_pad import fold_pad
from tinytrain.pipeline import (
    CALIBRATION_SAMPLES,
    Fit,
    Prepared,
    RunOptions,
    Training,
    calibrate,
    fit,
    prepare_graph,
    read_data,
    start_run,
)
from tinytrain.reader import read
from tinytrain.reader.dataset import Dataset
from tinytrain.search import Option, Pick, Point, Score, Trials, halve, options_of, pareto_front
from tinytrain.search.pick import bias_counts, presets_of, spread
from tinytrain.toolchain.cache import cache_dir
from tinytrain.toolchain.simulator import Simulator
from tinytrain.toolchain.statistics import Probe
from tinytrain.train import attach_loss
from tinytrain.train.layers import layers_of

FOLDS = 5
SHORT_STEPS = 600
"""Steps of a trial that measures a contribution."""
ROUNDS = (2, 1, 2)
"""Folds of each round of the final trials; the field is halved after each. One fold of a few
hundred samples tells no two good schemes apart, so the first round has two, of half the steps."""
GRADIENT_SAMPLES = 32
FRONT_POINTS = 4
LAST_PRESETS = 4
CRITERIA = ("contribution", "gradient")
_SPLIT_SEED = 7

Stage = Callable[[str], "Callable[[int, int], None] | None"]


@dataclass(frozen=True)
class Trial:
    """A training run on four fifths of the samples; repr() is its key in the cache."""

    content: str  # digest of model, samples and profile
    training: Training
    data: Path
    run: RunOptions
    pick: Pick
    fold: int
    steps: int | None


@dataclass(frozen=True)
class Entry:
    """A scheme of the study.

    Attributes:
        gain: that the additive model expects, as a fall of the loss; None for a preset alone.
        score: measured on held-out samples; None if it was not tried.
        sram_bytes: of the plan, by its true peak.
        macs_backward: multiply-accumulates of the backward pass and the update.
    """

    name: str
    pick: Pick
    gain: float | None
    score: Score | None
    sram_bytes: int
    macs_backward: int
    fits: bool


@dataclass(frozen=True)
class Study:
    """What a search found; `best` is the first of `entries` that was tried to the end.

    Attributes:
        budget_bytes: of SRAM.
        gap: by how much the additive optimum may be beaten; 0 is proof.
        complete: False when time was up before the last trial.
    """

    best: Entry
    entries: tuple[Entry, ...]
    budget_bytes: int
    gap: float
    contributions: dict[str, float]
    complete: bool


def search(
    training: Training,
    data: Path,
    board: Board,
    run: RunOptions,
    *,
    sram_bytes: int | None = None,
    time_limit_s: float = 180.0,
    criterion: str = "contribution",
    workers: int = 2,
    cache: Path | None = None,
    stage: Stage | None = None,
) -> Study:
    """Find the scheme to train; `training.scheme` does not count.

    Args:
        sram_bytes: budget; the board's RAM unless given.
        time_limit_s: no trial starts later; half of it is for the contributions.
        criterion: "contribution" measures each option by a short training, "gradient" takes one
            pass: the norm of a tensor's gradient over the norm of its weights.
        cache: file of the results; one a model and data in the cache folder unless given.
        stage: called with a stage's name, gives its progress function.

    Raises:
        InputError: not even the head fits, or there are too few samples to hold some out.
    """
    return _Search(
        training, data, board, run, sram_bytes, time_limit_s, workers, cache, stage
    ).study(criterion)


class _Search:
    def __init__(
        self,
        training: Training,
        data: Path,
        board: Board,
        run: RunOptions,
        sram_bytes: int | None,
        time_limit_s: float,
        workers: int,
        cache: Path | None,
        stage: Stage | None,
    ) -> None:
        self._training, self._data, self._board, self._run = training, data, board, run
        self._budget = board.ram.bytes if sram_bytes is None else sram_bytes
        self._model = read(training.model)
        self._samples = read_data(data, self._model, training.options)
        if len(self._samples.x_train) < 2 * FOLDS:
            raise InputError(
                "too-few-samples",
                "search",
                f"a search needs at least {2 * FOLDS} training samples,"
                f" there are {len(self._samples.x_train)}",
                where=str(data),
                hint="choose a scheme without it: bias:all, or last:N",
            )
        squares = mean_squares(self._model, self._samples.x_train[:CALIBRATION_SAMPLES])
        self._forward = attach_loss(fold_pad(self._model), training.options, squares)
        self._content = _digest(training.model, data)
        start = time.monotonic()
        self._half, self._end = start + time_limit_s / 2, start + time_limit_s
        self._workers = workers
        self._kept = cache or cache_dir() / "search" / f"{self._content}.jsonl"
        self._stage = stage or (lambda name: None)
        self._sizes: dict[Pick, Fit] = {}

    def study(self, criterion: str) -> Study:
        """All stages."""
        head = self._size(Pick())
        if not self._fits(head):
            raise InputError(
                "does-not-fit",
                "search",
                f"not even the head of {head.model} fits: SRAM {head.sram_bytes:,} of"
                f" {self._budget:,} bytes, flash {head.flash_bytes:,} of"
                f" {head.board_flash_bytes:,}",
                hint="choose a larger board or budget",
            )
        layers = len(layers_of(self._forward)) - 1
        options = _all_options(self._forward, layers)
        gains = (
            self._gradients(options) if criterion == "gradient" else self._contributions(options)
        )
        front = pareto_front(self._groups(options, gains))
        chosen = self._fitting(front.points)
        # presets first: where time runs out, they at least were tried; their names win
        distinct = {pick: name for name, pick in self._presets(layers).items()}
        for pick in chosen:
            distinct.setdefault(pick, str(pick))
        ranked, complete = self._final(list(distinct))
        rest = [pick for pick in distinct if pick not in ranked]
        entries = tuple(
            self._entry(distinct[pick], pick, chosen.get(pick), ranked.get(pick))
            for pick in [*ranked, *rest]
        )
        return Study(
            entries[0],
            entries,
            self._budget,
            front.gap,
            {str(option): gain for option, gain in gains.items()},
            complete,
        )

    # ---- sizes ----

    def _prepare(self, pick: Pick) -> Prepared:
        training = replace(self._training, scheme=pick.table)
        return prepare_graph(self._model, training, self._samples.x_train)

    def _size(self, pick: Pick) -> Fit:
        if pick not in self._sizes:
            self._sizes[pick] = fit(self._prepare(pick), self._board)
        return self._sizes[pick]

    def _fits(self, size: Fit) -> bool:
        return size.sram_bytes <= self._budget and size.flash_bytes <= size.board_flash_bytes

    def _groups(
        self, options: dict[Pick, int], gains: dict[Pick, float]
    ) -> list[list[Option[Pick]]]:
        """One group for the biases, one a layer; bytes are those beyond the head's alone."""
        head = self._size(Pick()).sram_bytes
        groups: dict[int, list[Option[Pick]]] = {}
        for pick, group in options.items():
            cost = max(0, self._size(pick).sram_bytes - head)
            groups.setdefault(group, []).append(Option(pick, gains.get(pick, 0.0), cost))
        return list(groups.values())

    def _fitting(self, points: Sequence[Point[Pick]]) -> dict[Pick, float]:
        """Some picks of the front whose true peak fits, the largest gain first."""
        picks = [(_merge(point.keys), point.gain) for point in reversed(points)]
        low, high = 0, len(picks) - 1
        while low < high:  # peaks rise along the front, nearly
            middle = (low + high) // 2
            if self._fits(self._size(picks[middle][0])):
                high = middle
            else:
                low = middle + 1
        fitting = [(pick, gain) for pick, gain in picks[low:] if gain > 0]
        if not fitting:
            return {}
        best = fitting[0][1]
        found: dict[Pick, float] = {}
        for share in np.linspace(1.0, 0.2, FRONT_POINTS):
            pick, gain = next(
                ((p, g) for p, g in reversed(fitting) if g >= share * best), fitting[0]
            )
            if self._fits(self._size(pick)):
                found[pick] = gain
        return found

    def _presets(self, layers: int) -> dict[str, Pick]:
        """The presets that fit; of last:N some, up to the largest."""
        found = {name: p for name, p in presets_of(layers).items() if self._fits(self._size(p))}
        lasts = [name for name in found if name.startswith("last:")]
        biases = [name for name in found if name.startswith("bias:")]
        kept = {"head", "full", *spread(lasts, LAST_PRESETS), *spread(biases, 2)}
        return {name: pick for name, pick in found.items() if name in kept}

    # ---- gains ----

    def _trials(self, end: float) -> Trials[Trial]:
        return Trials(run_trial, self._kept, self._workers, end)

    def _trial(self, pick: Pick, fold: int, steps: int | None) -> Trial:
        return Trial(self._content, self._training, self._data, self._run, pick, fold, steps)

    def _contributions(self, options: dict[Pick, int]) -> dict[Pick, float]:
        """How much each option alone lowers the loss below that of the head."""
        ranked = self._gradients(options)
        order = sorted(options, key=lambda pick: -ranked.get(pick, 0.0))
        wanted = [self._trial(pick, 0, SHORT_STEPS) for pick in [Pick(), *order]]
        scores = self._trials(self._half).scores(wanted, self._stage("contributions"))
        known = {trial.pick: score for trial, score in scores.items()}
        if Pick() not in known:
            return {}
        return {p: known[Pick()].loss - s.loss for p, s in known.items() if p != Pick()}

    def _gradients(self, options: dict[Pick, int]) -> dict[Pick, float]:
        """Norm of the gradient over that of the weights, from one pass; biases count little."""
        layers = layers_of(self._forward)
        free = replace(self._training.options, weight_state="float32", tau=0.0, batch=1)
        scheme = presets_of(len(layers) - 1)["full"].table
        training = replace(self._training, options=free, scheme=scheme)
        samples = self._samples
        prepared = prepare_graph(self._model, training, samples.x_train)
        simulator = Simulator(calibrate(prepared, samples, self._run).files)
        probe = Probe(simulator, self._run.seed, 1)
        for at in range(min(GRADIENT_SAMPLES, len(samples.x_train))):
            one = slice(at, at + 1)
            probe.look(samples.x_train[one], samples.y_train[one], self._run.learning_rate)
        ratios = {w.name: w.update_ratio for w in probe.statistics().weights}
        names = {layer.index: layer.weights for layer in layers}
        found: dict[Pick, float] = {}
        for pick, group in options.items():
            if group < 0:
                found[pick] = 1e-6 * pick.bias_last
            elif (ratio := ratios.get(names[group])) is not None:
                found[pick] = ratio * pick.weights[0][1] ** 0.5
        return found

    # ---- final trials ----

    def _final(self, picks: list[Pick]) -> tuple[dict[Pick, Score], bool]:
        trials = self._trials(self._end)
        calls = 0

        def measure(field: Sequence[Pick], fold: int) -> dict[Pick, Score]:
            nonlocal calls
            calls += 1
            half = fold < ROUNDS[0] and len(ROUNDS) > 1
            steps = max(1, len(self._samples.x_train) * self._run.epochs // 2) if half else None
            wanted = {self._trial(pick, fold, steps): pick for pick in field}
            scores = trials.scores(wanted, self._stage(f"fold {fold + 1} of {sum(ROUNDS)}"))
            return {wanted[trial]: score for trial, score in scores.items()}

        ranked = halve(picks, ROUNDS, measure, lambda pick: self._size(pick).sram_bytes)
        if not ranked:
            raise InputError(
                "no-time",
                "search",
                "time was up before any scheme had been trained",
                hint="allow more time: what was measured so far is kept",
            )
        return ranked, calls == sum(ROUNDS) and not trials.late

    def _entry(self, name: str, pick: Pick, gain: float | None, score: Score | None) -> Entry:
        size = self._size(pick)
        return Entry(name, pick, gain, score, size.sram_bytes, size.macs_backward, self._fits(size))


def run_trial(trial: Trial) -> Score:
    """Train on four fifths of the samples, judge on the last one."""
    model = read(trial.training.model)
    data = split(read_data(trial.data, model, trial.training.options), trial.fold)
    training = replace(trial.training, scheme=trial.pick.table)
    started = start_run(training, data, trial.run, trial.steps)
    simulator = Simulator(started.prepared.files)
    simulator.set_seed(started.seed)
    simulator.set_batch(started.prepared.training.options.batch)
    simulator.train(data.x_train, data.y_train, started.rates, order=started.order)
    results = simulator.infer(data.x_test)
    if not trial.training.options.labels:
        wanted = data.y_test.reshape(results.shape).astype(np.float64)
        scale = started.prepared.result.q.scale0
        error = float(np.mean(((results - wanted) * scale) ** 2))
        return Score(-error, error)
    right = results[np.arange(len(results)), data.y_test].astype(np.float64)
    accuracy = float(np.mean(np.argmax(results, axis=1) == data.y_test))
    return Score(accuracy, float(np.mean(-np.log(np.maximum(right, 1e-7)))))


def split(data: Dataset, fold: int) -> Dataset:
    """Training samples without a fold, and the fold in place of the test samples."""
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(data.x_train))
    held = order[fold::FOLDS]
    kept = np.setdiff1d(order, held, assume_unique=True)
    return replace(
        data,
        x_train=data.x_train[kept],
        y_train=data.y_train[kept],
        x_test=data.x_train[held],
        y_test=data.y_train[held],
    )


def _all_options(graph: Graph, layers: int) -> dict[Pick, int]:
    """Every option alone -> its group: -1 for biases, else the layer's index."""
    found = {Pick(count): -1 for count in bias_counts(layers)}
    for index, ratios in options_of(graph).items():
        found |= {Pick(0, ((index, ratio),)): index for ratio in ratios}
    return found


def _merge(picks: Sequence[Pick]) -> Pick:
    merged = Pick()
    for key in picks:
        merged = replace(merged, bias_last=max(merged.bias_last, key.bias_last))
        for index, ratio in key.weights:
            merged = merged.with_weights(index, ratio)
    return merged


def _digest(*paths: Path) -> str:
    digest = hashlib.sha256(PROFILE.encode())
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
