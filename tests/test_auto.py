"""The scheme auto, on a small model: the true peak counts, trials are kept, the clock is obeyed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tinytrain import auto
from tinytrain.auto import FOLDS, Study, search, split
from tinytrain.boards import get_board
from tinytrain.demo import data as digits
from tinytrain.errors import InputError
from tinytrain.pipeline import RunOptions, Training, fit, prepare, read_data
from tinytrain.reader import read
from tinytrain.search import Pick, Score
from tinytrain.search import pick as picks

BOARD = get_board("mps2-an386")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of few and short trials."""
    monkeypatch.setattr(auto, "SHORT_STEPS", 37)
    monkeypatch.setattr(auto, "ROUNDS", (1, 1))
    monkeypatch.setattr(auto, "LAST_PRESETS", 1)
    monkeypatch.setattr(picks, "RATIOS", (0.5, 1.0))


@pytest.fixture(scope="module")
def kept(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a first search left, for others to go on from."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        path = tmp_path_factory.mktemp("kept") / "kept.jsonl"
        run(data, path)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("auto") / "digits.npz"
    arrays = {k: v[:80] for k, v in digits.load().items() if k[2:] in ("train", "test")}
    np.savez(path, **arrays)
    return path


def run(data: Path, kept: Path, **options: object) -> Study:
    given = {"workers": 1, "cache": kept, **options}
    training = Training(digits.MODEL_PATH, "auto")
    return search(training, data, BOARD, RunOptions(epochs=1), **given)  # type: ignore[arg-type]


def test_a_search_from_end_to_end(data: Path, kept: Path, tmp_path: Path) -> None:
    study = run(data, kept)
    assert study.complete and study.gap == 0 and study.best is study.entries[0]
    tried = [entry for entry in study.entries if entry.score is not None]
    assert study.best.score is not None and len(tried) >= 2
    assert study.best.score.quality == max(e.score.quality for e in tried if e.score)
    assert {"head", "bias:all", "full"} <= {entry.name for entry in study.entries}
    assert len({entry.pick for entry in study.entries}) == len(study.entries)
    path = tmp_path / "best.toml"
    path.write_text(study.best.pick.toml())
    sizes = fit(prepare(Training(digits.MODEL_PATH, str(path))), BOARD)
    assert sizes.sram_bytes == study.best.sram_bytes


def test_again_it_only_reads(data: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(data, kept)
    monkeypatch.setattr(auto, "run_trial", None)  # must not be called
    assert run(data, kept) == first


def test_what_is_chosen_fits_a_budget_by_its_true_peak(data: Path, kept: Path) -> None:
    study = run(data, kept, sram_bytes=24_000)
    assert all(entry.fits and entry.sram_bytes <= 24_000 for entry in study.entries)
    assert "full" not in {entry.name for entry in study.entries}


def test_the_gradient_criterion_takes_one_pass(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int | None] = []
    plain = auto.run_trial

    def counted(trial: auto.Trial) -> Score:
        taken.append(trial.steps)
        return plain(trial)

    monkeypatch.setattr(auto, "run_trial", counted)
    study = run(data, tmp_path / "kept.jsonl", criterion="gradient")
    assert taken and auto.SHORT_STEPS not in taken
    weights = {k: v for k, v in study.contributions.items() if k.startswith("w")}
    assert weights and all(value > 0 for value in weights.values())


def test_without_time_there_is_an_error_that_says_so(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        run(data, tmp_path / "kept.jsonl", time_limit_s=0.0)
    assert caught.value.code == "no-time"


def test_a_budget_below_the_head_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not even the head"):
        run(data, tmp_path / "kept.jsonl", sram_bytes=1_000)


def test_folds_hold_every_sample_out_once_and_never_the_test_samples(data: Path) -> None:
    model = read(digits.MODEL_PATH)
    whole = read_data(data, model, Training(digits.MODEL_PATH).options)
    folds = [split(whole, fold) for fold in range(FOLDS)]
    held = np.concatenate([fold.x_test for fold in folds])
    assert len(held) == len(whole.x_train)
    assert sorted(row.tobytes() for row in held) == sorted(row.tobytes() for row in whole.x_train)
    assert all(len(f.x_train) + len(f.x_test) == len(whole.x_train) for f in folds)


def test_too_few_samples_are_refused(data: Path, tmp_path: Path) -> None:
    arrays = dict(np.load(data))
    few = tmp_path / "few.npz"
    np.savez(few, **{k: v[:9] for k, v in arrays.items()})
    with pytest.raises(InputError, match="at least 10"):
        run(few, tmp_path / "kept.jsonl")


def test_picks_merge_to_one_scheme() -> None:
    assert auto._merge((Pick(2), Pick(0, ((3, 0.5),)), Pick(0, ((1, 1.0),)))) == Pick(
        2, ((1, 1.0), (3, 0.5))
    )
