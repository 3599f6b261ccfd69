"""The interpreter keeps states, runs the phases it is asked for, and is deterministic."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.small_networks import CLASSES, NETWORKS
from tests.support.tflite_writer import Array
from tinytrain.interp import Interpreter, mean_squares
from tinytrain.ir import Graph, Phase, Role
from tinytrain.ops.base import Step
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss, differentiate, parse_scheme

RATE = np.float32(0.01)


def training_graph(options: TrainOptions) -> Graph:
    inference = attach_loss(read(NETWORKS["residual"]()), options, {})
    return differentiate(inference, parse_scheme("full", inference), options, {})


def sample(seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, (8, 8, 3)).astype(np.int8)


def changed(interpreter: Interpreter, before: dict[str, Array]) -> set[str]:
    now = interpreter.state
    return {name for name, value in before.items() if not np.array_equal(value, now[name])}


def snapshot(interpreter: Interpreter) -> dict[str, Array]:
    return {name: value.copy() for name, value in interpreter.state.items()}


def run(interpreter: Interpreter, steps: int, *, seed: int = 1, apply: bool = True) -> None:
    for index in range(steps):
        interpreter.train_step(sample(index), Step(seed, index, RATE, apply, index % CLASSES))


def test_inference_changes_nothing_and_needs_no_batch_dimension() -> None:
    interpreter = Interpreter(training_graph(TrainOptions()))
    before = snapshot(interpreter)
    flat, full = interpreter.infer(sample()), interpreter.infer(sample()[None])
    assert not changed(interpreter, before)
    assert np.array_equal(flat["scores"], full["scores"])
    assert "loss" not in flat
    assert flat["scores"].sum() == pytest.approx(1.0, abs=1e-5)


def test_training_moves_every_state() -> None:
    interpreter = Interpreter(training_graph(TrainOptions()))
    before = snapshot(interpreter)
    run(interpreter, 30)
    assert changed(interpreter, before) == set(before)


def test_measuring_moves_ranges_and_norms_only() -> None:
    interpreter = Interpreter(training_graph(TrainOptions()))
    before = snapshot(interpreter)
    run(interpreter, 3, apply=False)
    moved = changed(interpreter, before)
    assert moved
    assert all(name.endswith(("_range", "_bound")) for name in moved)


def test_the_same_seed_gives_the_same_bytes() -> None:
    graph = training_graph(TrainOptions(weight_state="int8", tau=0.0))
    runs = []
    for seed in (1, 1, 2):
        interpreter = Interpreter(graph)
        run(interpreter, 6, seed=seed)
        runs.append(b"".join(interpreter.state[name].tobytes() for name in sorted(graph.tensors)
                             if name in interpreter.state))  # fmt: skip
    assert runs[0] == runs[1] != runs[2]


def test_reset() -> None:
    interpreter = Interpreter(training_graph(TrainOptions()))
    before = snapshot(interpreter)
    run(interpreter, 4)
    interpreter.reset()
    assert not changed(interpreter, before)
    run(interpreter, 1)
    data = [t.data for t in interpreter.graph.tensors.values() if t.role is Role.STATE]
    fresh = [
        t.data for t in training_graph(TrainOptions()).tensors.values() if t.role is Role.STATE
    ]
    assert all(np.array_equal(a, b) for a, b in zip(data, fresh, strict=True))  # type: ignore[arg-type]


def test_a_batch_moves_weights_when_it_is_applied() -> None:
    graph = training_graph(TrainOptions(batch=4))
    assert graph.phase(Phase.APPLY)
    interpreter = Interpreter(graph)
    run(interpreter, 3, apply=False)
    before = snapshot(interpreter)
    run(interpreter, 4)
    moved = changed(interpreter, before)
    buffers = {n for n, t in graph.tensors.items() if t.role is Role.BUFFER}
    assert buffers and buffers <= moved
    assert all(name.endswith("_range") for name in moved - buffers)
    interpreter.apply_batch(Step(1, 3, RATE))
    assert not any(interpreter.state[name].any() for name in buffers)
    trained = {n for n in before if n.endswith(("weights", "bias")) or "_bias_" in n}
    assert trained & changed(interpreter, before)


def test_mean_squares() -> None:
    graph = read(NETWORKS["residual"]())
    samples = np.stack([sample(k) for k in range(3)])
    squares = mean_squares(graph, samples)
    x = graph[graph.inputs[0]]
    real = (samples.astype(float) - x.q.zero_point) * x.q.scale0
    assert squares[x.name] == pytest.approx(np.mean(real**2))
    assert {op.outputs[0] for op in graph.ops} <= set(squares)
    assert all(value >= 0 for value in squares.values())
