"""The defaults are safe: over a range of rates, training all layers does not undo what is known."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pytest

from tinytrain.demo import data as digits
from tinytrain.numeric.quantize import quantize
from tinytrain.pipeline import RunOptions, Simulation, Training, simulate, start_run
from tinytrain.reader.dataset import Dataset
from tinytrain.train import TrainOptions

RATES = (0.01, 0.1, 1.0)


@lru_cache
def known_digits() -> Dataset:
    """Images that the model has not seen, of the kind that it knows."""
    pytest.importorskip("sklearn")
    parts = digits.split()
    (x, y), (x_test, y_test) = parts.train, parts.test
    return Dataset(quantize(x, digits.INPUT_QUANT), y, quantize(x_test, digits.INPUT_QUANT), y_test)


def trained(scheme: str, rate: float, seed: int, *, plain: bool = False) -> Simulation:
    """Two epochs at batch 1 with the classifier kept; `plain` is QAS without bound."""
    options = TrainOptions(seed=seed)
    if plain:
        options = replace(options, normalize=False, tau=0.0)
    run = RunOptions(epochs=2, learning_rate=rate, seed=seed)
    return simulate(start_run(Training(digits.MODEL_PATH, scheme, options), known_digits(), run))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("scheme", ["last:2", "full"])
def test_the_defaults_are_safe(scheme: str, rate: float, seed: int) -> None:
    found = trained(scheme, rate, seed)
    assert found.accuracy_before is not None and found.accuracy_after is not None
    assert found.accuracy_before > 0.9
    assert found.accuracy_after >= found.accuracy_before - 0.03


@pytest.mark.parametrize("scheme", ["last:2", "full"])
def test_without_bound_and_normalization_training_collapses(scheme: str) -> None:
    """Else the test above would show nothing."""
    found = trained(scheme, RATES[-1], 0, plain=True)
    assert found.accuracy_after is not None and found.accuracy_after < 0.5
