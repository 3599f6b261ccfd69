"""Trials: kept, resumed, stopped by the clock; the better half goes on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tinytrain.search.trials import Score, Trials, halve


def half(trial: int) -> Score:
    """A trial that other processes can run."""
    return Score(trial / 2, -trial)


class Counting:
    """A trial that says how often it ran."""

    def __init__(self) -> None:
        self.ran: list[int] = []

    def __call__(self, trial: int) -> Score:
        self.ran.append(trial)
        return half(trial)


def test_what_is_kept_is_not_run_again(tmp_path: Path) -> None:
    kept, count = tmp_path / "deep" / "kept.jsonl", Counting()
    seen: list[tuple[int, int]] = []
    Trials(count, kept, 1, None).scores([1, 2, 2], lambda *at: seen.append(at))
    kept.write_text(kept.read_text() + '{"key": "cut')  # as a stop in the middle leaves it
    scores = Trials(count, kept, 1, None).scores([1, 2, 3])
    assert scores == {1: half(1), 2: half(2), 3: half(3)}
    assert count.ran == [1, 2, 3] and seen == [(1, 2), (2, 2)]
    assert Trials(count, kept, 1, None).scores([3]) == {3: half(3)} and count.ran == [1, 2, 3]


def test_in_processes_it_is_the_same(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    assert Trials(half, kept, 2, None).scores(range(5)) == {i: half(i) for i in range(5)}
    assert len(kept.read_text().splitlines()) == 5


def test_nothing_starts_when_time_is_up(tmp_path: Path) -> None:
    for workers in (1, 2):
        trials = Trials(half, tmp_path / f"{workers}.jsonl", workers, time.monotonic() - 1)
        assert trials.late and trials.scores([1, 2]) == {}


def measured(table: Mapping[str, Sequence[float]], taken: list[tuple[int, tuple[str, ...]]]):  # type: ignore[no-untyped-def]
    def measure(field: Sequence[str], fold: int) -> dict[str, Score]:
        taken.append((fold, tuple(field)))
        return {name: Score(table[name][fold], 0.0) for name in field}

    return measure


def test_the_better_half_goes_on_and_means_decide() -> None:
    table = {"a": (9, 1, 1), "b": (8, 8, 8), "c": (7, 9, 3), "d": (1, 9, 9)}
    taken: list[tuple[int, tuple[str, ...]]] = []
    ranked = halve(list(table), (1, 2), measured(table, taken), lambda name: 0)
    assert taken == [(0, ("a", "b", "c", "d")), (1, ("a", "b")), (2, ("a", "b"))]
    assert list(ranked) == ["b", "a"] and ranked["b"] == Score(8.0, 0.0)


def test_among_equals_the_lower_loss_then_the_cheaper_wins() -> None:
    scores = {"a": Score(1, 2), "b": Score(1, 1), "c": Score(1, 1)}
    ranked = halve(
        list(scores), (1,), lambda field, fold: scores, {"a": 1, "b": 9, "c": 5}.__getitem__
    )
    assert list(ranked) == ["c", "b", "a"]


def test_a_round_cut_off_leaves_the_one_before() -> None:
    def measure(field: Sequence[str], fold: int) -> dict[str, Score]:
        scores = {name: Score(ord(name), 0.0) for name in field}
        return scores if fold == 0 else dict(list(scores.items())[:1])

    assert list(halve(["a", "b", "c"], (1, 1), measure, lambda name: 0)) == ["c", "b", "a"]
    assert halve(["a"], (1,), lambda field, fold: {}, lambda name: 0) == {}
