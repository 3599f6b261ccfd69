"""The order of the stages: what one of them finds must reach the next."""

from __future__ import annotations

import numpy as np

from tinytrain.demo import data as digits
from tinytrain.ir import Role
from tinytrain.pipeline import RunOptions, Training, simulate, start_run
from tinytrain.reader import read
from tinytrain.reader.dataset import Dataset, dataset_from_arrays
from tinytrain.toolchain.simulator import Simulator
from tinytrain.train import TrainOptions


def dataset() -> Dataset:
    graph = read(digits.MODEL_PATH)
    arrays = {k: v[:64] for k, v in digits.load().items()}
    return dataset_from_arrays(arrays, graph[graph.inputs[0]], classes=10)


def test_what_calibration_measured_is_where_the_c_begins() -> None:
    run = start_run(Training(digits.MODEL_PATH, "full"), dataset(), RunOptions(epochs=1))
    graph = run.prepared.plan.graph
    ranges = [n for n, t in graph.tensors.items() if n.endswith("_range") and t.role is Role.STATE]
    bounds = [n for n, t in graph.tensors.items() if n.endswith("_bound")]
    simulator = Simulator(run.prepared.files)
    assert len(ranges) >= 8 and len(bounds) == 5
    for name in ranges:
        assert simulator.values(name)[0] > 0, name
        assert simulator.values(name).tobytes() == np.asarray(graph[name].data).tobytes(), name
    for name in bounds:
        assert np.all(simulator.values(name) > 0), name


def test_one_logit_learns_two_classes() -> None:
    """Digits below five against the others, with a fresh one-logit classifier."""
    graph = read(digits.MODEL_PATH)
    arrays = {k: (v >= 5).astype(np.int64) if k[0] == "y" else v for k, v in digits.load().items()}
    data = dataset_from_arrays(arrays, graph[graph.inputs[0]], classes=2)
    options = TrainOptions(classes=2, loss="binary-cross-entropy", momentum=0.5)
    training = Training(digits.MODEL_PATH, "full", options)
    run = start_run(training, data, RunOptions(epochs=3, learning_rate=0.02))
    found = simulate(run)
    assert found.accuracy_after is not None and found.accuracy_before is not None
    assert found.accuracy_after > 0.85 > 0.65 > found.accuracy_before


def test_from_the_first_step_on_errors_are_hardly_saturated() -> None:
    run = start_run(Training(digits.MODEL_PATH, "full"), dataset(), RunOptions(epochs=2))
    found = simulate(run, looks=8).statistics
    assert found is not None and found.steps == 8
    assert all(error.saturated < 0.05 for error in found.errors), found.errors
