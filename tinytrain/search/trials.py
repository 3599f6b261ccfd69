"""Trials: schemes trained for real, in parallel, each result kept; the better half goes on.

In: a function that runs one trial, a file for the results. Out: scores. What was cut off, by the
user or by the clock, goes on from the file. Must not know how a trial is run.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Score:
    """What a trial reached on samples it had not trained on.

    Attributes:
        quality: accuracy, or the negative mean squared error.
        loss: mean cross-entropy, or mean squared error: finer than accuracy; 0 if not asked for.
    """

    quality: float
    loss: float = 0.0


class Trials(Generic[K]):
    """Runs trials that are not known yet.

    Args:
        run: one trial; must be picklable, as must its arguments.
        kept: lines of JSON, made if not there.
        workers: processes.
        end: on the monotonic clock; no trial starts after it.
        key: what tells trials apart in the file; all that repr() says unless given.
    """

    def __init__(
        self,
        run: Callable[[K], Score],
        kept: Path,
        workers: int,
        end: float | None = None,
        key: Callable[[K], str] = repr,
    ) -> None:
        self._run, self._kept, self._workers, self._end = run, kept, workers, end
        self._text = key
        self._known: dict[str, Score] = {}
        kept.parent.mkdir(parents=True, exist_ok=True)
        text = kept.read_text("utf-8") if kept.is_file() else ""
        self._mend = "" if text.endswith("\n") or not text else "\n"
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                self._known[entry["key"]] = Score(float(entry["quality"]), float(entry["loss"]))
            except (ValueError, KeyError, TypeError):
                continue  # cut short

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return self._end is not None and time.monotonic() >= self._end

    def scores(
        self, wanted: Iterable[K], progress: Callable[[int, int], None] | None = None
    ) -> dict[K, Score]:
        """The score of each trial; those for which time was up are missing."""
        trials = list(dict.fromkeys(wanted))
        missing = [t for t in trials if self._key(t) not in self._known]
        if missing:
            self._run_all(missing, progress)
        return {t: self._known[self._key(t)] for t in trials if self._key(t) in self._known}

    def _run_all(self, missing: Sequence[K], progress: Callable[[int, int], None] | None) -> None:
        if self._workers <= 1 or len(missing) == 1:
            for done, trial in enumerate(missing, 1):
                if self.late:
                    return
                self._keep(trial, self._run(trial))
                if progress is not None:
                    progress(done, len(missing))
            return
        waiting: dict[Future[Score], K] = {}
        rest = list(reversed(missing))
        with ProcessPoolExecutor(self._workers) as pool:
            try:
                while waiting or (rest and not self.late):
                    while rest and len(waiting) < self._workers and not self.late:
                        trial = rest.pop()
                        waiting[pool.submit(self._run, trial)] = trial
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        self._keep(waiting.pop(future), future.result())
                        if progress is not None:
                            progress(len(missing) - len(rest) - len(waiting), len(missing))
            finally:
                pool.shutdown(cancel_futures=True)

    def _key(self, trial: K) -> str:
        return hashlib.sha256(self._text(trial).encode()).hexdigest()[:24]

    def _keep(self, trial: K, score: Score) -> None:
        self._known[self._key(trial)] = score
        line = json.dumps({"key": self._key(trial), **vars(score)})
        with self._kept.open("a", encoding="utf-8") as file:
            file.write(self._mend + line + "\n")
        self._mend = ""


def mean(scores: Sequence[Score]) -> Score:
    """Of several folds."""
    count = len(scores)
    return Score(sum(s.quality for s in scores) / count, sum(s.loss for s in scores) / count)


def halve(
    candidates: Sequence[K],
    rounds: Sequence[int],
    measure: Callable[[Sequence[K], int], Mapping[K, Score]],
    cost: Callable[[K], int],
) -> dict[K, Score]:
    """Successive halving: all in the first round, the better half in each further one.

    Args:
        candidates: what is compared.
        rounds: folds that are measured in each round.
        measure: (candidates, fold) -> scores; may leave some out when time is up.
        cost: among equal ones the cheaper wins.

    Returns:
        The mean scores of those that took part in the last complete round, the best one first.
    """
    seen: dict[K, list[Score]] = {candidate: [] for candidate in candidates}
    field, fold, ranked = list(candidates), 0, dict[K, Score]()
    for number, folds in enumerate(rounds):
        for _ in range(folds):
            for candidate, score in measure(field, fold).items():
                seen[candidate].append(score)
            fold += 1
        complete = [c for c in field if len(seen[c]) == fold]
        if len(complete) < len(field) and ranked:
            return ranked  # time was up within the round
        means = {c: mean(seen[c]) for c in complete}
        order = sorted(means, key=lambda c: (-means[c].quality, means[c].loss, cost(c)))
        ranked = {c: means[c] for c in order}
        if number + 1 < len(rounds):
            field = order[: max(2, (len(order) + 1) // 2)]
    return ranked
