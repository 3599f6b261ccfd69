"""The accuracy benchmark: what chooses the rate, what is kept, and that it trains."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tinytrain.bench import accuracy_runs, tasks
from tinytrain.bench.accuracy import INT8, INT16, Plan, Row, differences, measure, sweep
from tinytrain.bench.accuracy_runs import FLOAT32, Job, accuracy_trials, summary
from tinytrain.bench.tasks import Task
from tinytrain.demo import data as digits
from tinytrain.errors import InputError

TASK = Task("digits", "digits", 10, 2)


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zoo of one small task."""
    for folder in ("models", "tasks"):
        (tmp_path / folder).mkdir()
    shutil.copy(digits.MODEL_PATH, tmp_path / "models" / "digits.tflite")
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (40, 8, 8, 1)).astype(np.int8)
    y = np.arange(40).astype(np.uint8) % 10
    np.savez(tmp_path / "tasks" / "digits.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    monkeypatch.setattr(accuracy_runs, "TASKS", {"digits": TASK})
    return tmp_path


def scores(monkeypatch: pytest.MonkeyPatch, score: object) -> list[Job]:
    """Runs give `score(job)` and are listed."""
    taken: list[Job] = []

    def run(job: Job, zoo: Path) -> float:
        taken.append(job)
        return float(score(job))  # type: ignore[operator]

    monkeypatch.setattr(accuracy_runs, "run_job", run)
    return taken


def test_the_validation_split_alone_chooses_the_rate(
    zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = {FLOAT32: 0.003, INT16: 0.03}

    def score(job: Job) -> float:
        if job.validation:
            return 0.9 if job.rate == best[job.kind] else 0.5
        return 0.1 * job.seed + job.rate

    taken = scores(monkeypatch, score)
    plan = Plan(("digits",), ("head", "full"), seeds=2)
    rows = measure(plan, accuracy_trials(zoo, tmp_path / "kept.jsonl", 1))
    assert [(r.scheme, r.kind, r.rate) for r in rows] == [
        (scheme, kind, best.get(kind, best[INT16]))
        for scheme in ("head", "full")
        for kind in (FLOAT32, INT16, INT8)
    ]
    assert rows[0].accuracy == summary([0.003, 0.103])
    assert not any(job.validation and job.kind == INT8 for job in taken)


def test_equal_rates_give_the_one_nearest_to_the_default(
    zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores(monkeypatch, lambda job: 0.5)
    plan = Plan(("digits",), ("head",), kinds=(INT16,), seeds=1)
    (row,) = measure(plan, accuracy_trials(zoo, tmp_path / "kept.jsonl", 1))
    assert row.rate == 0.01


def test_what_is_known_is_not_run_again(
    zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = scores(monkeypatch, lambda job: 0.25)
    kept = tmp_path / "kept.jsonl"
    jobs = [Job("digits", "head", INT16, 1, 0.01, seed) for seed in range(3)]
    accuracy_trials(zoo, kept, 1).scores(jobs[:2])
    reached = accuracy_trials(zoo, kept, 1).scores(jobs)
    assert taken == jobs and {score.quality for score in reached.values()} == {0.25}
    monkeypatch.setattr(accuracy_runs, "PROFILE", "another")
    accuracy_trials(zoo, kept, 1).scores(jobs[:1])
    assert taken == [*jobs, jobs[0]]


def test_training_for_real_and_a_split_that_holds_samples_out(zoo: Path, tmp_path: Path) -> None:
    job = Job("digits", "full", INT16, 1, 0.01, 0)
    held = Job("digits", "full", INT16, 1, 0.01, 0, validation=True)
    reached = accuracy_trials(zoo, tmp_path / "kept.jsonl", 1).scores([job, held])
    judged = reached[held].quality
    assert 0.0 <= judged <= 1.0 and (judged * 8) % 1 == 0  # a fifth of 40
    assert reached[job].quality == accuracy_runs.run_job(job, zoo)


def test_the_sweep_has_both_step_rules_and_the_head(
    zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores(monkeypatch, lambda job: 0.1 if job.plain else 0.7)
    rows = sweep(("digits",), 2, (0.01, 0.1), accuracy_trials(zoo, tmp_path / "kept.jsonl", 1))
    assert {(r.scheme, r.rate, r.plain) for r in rows} == {
        *((s, r, p) for s in ("last:4", "full") for r in (0.01, 0.1) for p in (False, True)),
        ("head", 0.01, False),
    }
    assert all(r.accuracy["mean"] == (10.0 if r.plain else 70.0) for r in rows)


def test_plain_runs_have_neither_bound_nor_normalization(zoo: Path) -> None:
    plain = Job("digits", "full", INT8, 8, 0.01, 3, plain=True)
    options = plain.options
    assert (options.tau, options.normalize, options.weight_state) == (0.0, False, "int8")
    assert json.loads(plain.key)[0]["plain"] is True
    assert plain.key != Job("digits", "full", INT8, 8, 0.01, 3).key


def test_differences_pair_equal_cells() -> None:
    def row(kind: str, batch: int, mean: float) -> Row:
        return Row("t", "head", batch, kind, 0.01, {"mean": mean})

    rows = [row(FLOAT32, 1, 80.0), row(INT16, 1, 79.25), row(INT16, 8, 70.0)]
    assert differences(rows, INT16) == {("t", "head", 1): -0.75}


def test_a_missing_zoo_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing") as caught:
        tasks.TASKS["kws_digits"].files(tmp_path)
    assert "TINYTRAIN_ZOO" in caught.value.hint
