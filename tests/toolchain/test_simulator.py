"""The simulator: generated C against the NumPy interpreter, its guards, its refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen import generate, write_project
from tests.codegen.models import CLASSES, tiny_graph, tiny_plan
from tinytrain.errors import InputError, InternalError, UsageError
from tinytrain.interp.interpreter import Interpreter
from tinytrain.ir import Graph
from tinytrain.memory import plan
from tinytrain.ops.base import Step
from tinytrain.toolchain.simulator import Simulator
from tinytrain.train import TrainOptions

SAMPLES = 12
SEED = 77
RATE = 0.02


def samples(mse: bool = False) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (SAMPLES, 6, 6, 3)).astype(np.int8)
    if mse:
        return x, rng.integers(-128, 128, (SAMPLES, CLASSES)).astype(np.int8)
    return x, rng.integers(0, CLASSES, SAMPLES)


def make(tmp_path: Path, scheme: str = "full", options: TrainOptions | None = None) -> Simulator:
    return Simulator(generate(tiny_plan(tmp_path, scheme, options)))


def assert_same(expected: np.ndarray, found: np.ndarray, what: str) -> None:  # type: ignore[type-arg]
    assert expected.dtype == found.dtype, what
    assert expected.tobytes() == found.tobytes(), what


def compare_steps(graph: Graph, simulator: Simulator, batch: int, mse: bool) -> None:
    """Every tensor of every operator, and every state after every step."""
    interpreter = Interpreter(graph)
    x, y = samples(mse)
    for index in range(SAMPLES):
        apply = index % 5 != 1
        rate = np.float32(np.float32(RATE) / np.float32(batch))
        step = Step(SEED, index, rate, apply, y[index])
        expected = dict(interpreter.train_step(x[index], step))
        taken = sum(1 for i in range(index + 1) if i % 5 != 1)
        if apply and batch > 1 and taken % batch == 0:
            interpreter.apply_batch(step)
        found = simulator.trace(x[index], y[index], train=True, rate=RATE, apply=apply)
        for name, value in expected.items():
            if value is not None:
                assert_same(value, found[name], f"step {index}: {name}")
        for name, value in interpreter.state.items():
            assert_same(value, simulator.values(name), f"after step {index}: {name}")


@pytest.mark.parametrize(
    ("scheme", "state", "loss", "batch"),
    [
        ("full", "int8", "cross-entropy", 1),
        ("full", "int8", "cross-entropy", 3),
        ("full", "int16", "mse", 3),
        ("full", "float32", "cross-entropy", 1),
        ("bias:all", "int16", "cross-entropy", 3),
        ("head", "int16", "mse", 1),
    ],
)
def test_every_tensor_is_the_interpreters(
    tmp_path: Path, scheme: str, state: str, loss: str, batch: int
) -> None:
    options = TrainOptions(weight_state=state, loss=loss, batch=batch)
    graph = tiny_graph(tmp_path, scheme, options)
    simulator = Simulator(generate(plan(graph)))
    simulator.set_seed(SEED)
    simulator.set_batch(batch)
    compare_steps(graph, simulator, batch, loss == "mse")


def test_chosen_channels(tmp_path: Path) -> None:
    path = tmp_path / "scheme.toml"
    path.write_text("[[layer]]\nindex = 2\nchannels = [1, 30]\n")
    graph = tiny_graph(tmp_path, str(path))
    simulator = Simulator(generate(plan(graph)))
    simulator.set_seed(SEED)
    compare_steps(graph, simulator, 1, False)


def test_traced_steps_are_the_plain_ones(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path))
    x, y = samples()
    traced, plain = Simulator(files), Simulator(files)
    for i in range(4):
        found = traced.trace(x[i], y[i], train=True, rate=RATE)
        losses = plain.train(x[i : i + 1], y[i : i + 1], RATE)
        assert found["loss"].tobytes() == losses.tobytes()
    assert traced.state() == plain.state()
    assert traced.step_index == plain.step_index == 4
    assert_same(traced.infer(x), plain.infer(x), "scores")


def test_inference_is_the_interpreters(tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path, "none")
    x, _ = samples()
    expected = [Interpreter(graph).infer(sample)[graph.outputs[0]].reshape(-1) for sample in x]
    simulator = Simulator(generate(plan(graph)))
    assert_same(np.stack(expected), simulator.infer(x), "values")
    assert simulator.predict(x).tolist() == [int(np.argmax(e)) for e in expected]
    found = simulator.trace(x[0])
    assert_same(expected[0], found[graph.outputs[0]].reshape(-1), "traced")
    assert_same(x[0], found["image"].reshape(x[0].shape), "input")


def test_training_learns_and_reset_forgets(tmp_path: Path) -> None:
    simulator = make(tmp_path)
    x, y = samples()
    start = simulator.state()
    order = np.tile(np.arange(SAMPLES), 60)
    losses = simulator.train(x, y, 0.05, order=order)
    assert losses.shape == (len(order),)
    assert losses[-SAMPLES:].mean() < 0.5 * losses[:SAMPLES].mean()
    assert (simulator.predict(x) == y).mean() > 0.5
    simulator.reset()
    assert simulator.state() == start
    assert simulator.step_index == 0


def test_equal_runs_are_equal_and_seeds_differ(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path))
    x, y = samples()

    def run(seed: int, *parts: int) -> bytes:
        simulator = Simulator(files)
        simulator.set_seed(seed)
        bounds = (0, *parts, SAMPLES)
        for begin, end in zip(bounds, bounds[1:], strict=False):
            simulator.train(x, y, RATE, order=np.arange(begin, end))
        return simulator.state()

    assert run(1) == run(1, 3, 7)
    assert run(1) != run(2)


def test_a_run_can_be_taken_up_elsewhere(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path))
    x, y = samples()
    first, second = Simulator(files), Simulator(files)
    first.train(x, y, RATE)
    second.set_state(first.state())
    second.step_index = first.step_index
    assert_same(first.train(x, y, RATE), second.train(x, y, RATE), "losses")
    assert first.state() == second.state()


def test_calibration_measures_only(tmp_path: Path) -> None:
    simulator = make(tmp_path, "bias:all")
    x, y = samples()
    trained = {n: simulator.values(n) for n in simulator.project.tensors if n.endswith("_bias")}
    assert trained
    simulator.train(x, y, RATE, apply=False)
    assert simulator.step_index == SAMPLES
    for name, value in trained.items():
        assert_same(value, simulator.values(name), name)


def test_progress(tmp_path: Path) -> None:
    simulator = make(tmp_path)
    x, y = samples()
    calls: list[tuple[int, int]] = []
    order = np.tile(np.arange(SAMPLES), 50)
    watched = simulator.train(x, y, RATE, order=order, progress=lambda *c: calls.append(c))
    assert [c[0] for c in calls] == sorted({c[0] for c in calls})
    assert calls[-1] == (len(order), len(order))
    simulator.reset()
    assert_same(simulator.train(x, y, RATE, order=order), watched, "losses")


def test_projects_on_disk_are_the_same(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path))
    write_project(files, tmp_path / "project")
    x, _ = samples()
    assert_same(Simulator(files).infer(x), Simulator(tmp_path / "project").infer(x), "scores")


# ---- what the guards find ----


def broken(tmp_path: Path, file: str, old: str, new: str) -> Simulator:
    files = generate(tiny_plan(tmp_path))
    text = files[file].decode()
    assert old in text
    files[file] = text.replace(old, new).encode()
    return Simulator(files)


def test_a_write_before_the_memory_is_found(tmp_path: Path) -> None:
    index = "model->step_index++;"
    runtime = "lib/tt_runtime/src/tt_runtime.c"
    simulator = broken(tmp_path, runtime, index, f"{index} *(model->state - 1) = 1;")
    x, y = samples()
    with pytest.raises(InternalError, match="outside of its memory"):
        simulator.train(x, y, RATE)


def test_a_write_into_another_tensor_is_found(tmp_path: Path) -> None:
    kernel = "lib/tt_kernels/src/tt_float_math.h"
    old = "float sum = 0.0f;"
    simulator = broken(tmp_path, kernel, old, f"{old} scores[-1] = 0.5f;")
    x, _ = samples()
    with pytest.raises(InternalError, match="outside of its outputs") as caught:
        simulator.trace(x[0])
    assert "class_scores" in caught.value.where


# ---- refusals ----


def test_inputs_that_do_not_fit(tmp_path: Path) -> None:
    simulator = make(tmp_path)
    x, y = samples()
    bad = [x.astype(np.int16), x[..., :2], x[0], np.zeros((), np.int8), x.astype(np.float32)]
    for wrong in bad:
        with pytest.raises(InputError, match="inputs must be"):
            simulator.infer(wrong)
    assert simulator.infer(x[:0]).shape == (0, CLASSES)
    assert simulator.train(x[:0], y[:0], RATE).shape == (0,)


def test_targets_that_do_not_fit(tmp_path: Path) -> None:
    simulator = make(tmp_path)
    x, y = samples()
    for wrong in (y[:-1], y + CLASSES, y - CLASSES, y.astype(np.float32), np.tile(y, (2, 1)).T):
        with pytest.raises(InputError):
            simulator.train(x, wrong, RATE)
    values = make(tmp_path, "full", TrainOptions(loss="mse"))
    x, y = samples(mse=True)
    for wrong in (y[:, :-1], y.astype(np.int32)):
        with pytest.raises(InputError):
            values.train(x, wrong, RATE)


@pytest.mark.parametrize("rate", [-1.0, np.nan, np.inf])
def test_rates_that_do_not_fit(tmp_path: Path, rate: float) -> None:
    simulator = make(tmp_path)
    with pytest.raises(InputError, match="finite"):
        simulator.train(*samples(), rate)
    assert simulator.step_index == 0


def test_orders_that_do_not_fit(tmp_path: Path) -> None:
    simulator = make(tmp_path)
    for wrong in ([-1], [SAMPLES], [0, 1 << 40]):
        with pytest.raises(InputError, match="indices"):
            simulator.train(*samples(), RATE, order=np.array(wrong))


def test_inference_alone_cannot_train(tmp_path: Path) -> None:
    simulator = make(tmp_path, "none")
    x, y = samples()
    with pytest.raises(UsageError, match="only infer"):
        simulator.train(x, y, RATE)
    with pytest.raises(UsageError, match="after each sample"):
        simulator.set_batch(2)
    simulator.set_batch(1)


def test_other_refusals(tmp_path: Path) -> None:
    simulator = make(tmp_path, "full", TrainOptions(batch=2))
    with pytest.raises(InputError):
        simulator.set_batch(257)
    with pytest.raises(InputError):
        simulator.set_state(b"")
    with pytest.raises(UsageError, match="no tensor"):
        simulator.values("nothing")


@pytest.mark.parametrize("manifest", [b"", b"{}", b"[]", b'{"format": 99}', b"\xff"])
def test_damaged_manifests(tmp_path: Path, manifest: bytes) -> None:
    files = generate(tiny_plan(tmp_path))
    with pytest.raises(InputError, match="not a generated project"):
        Simulator({**files, "manifest.json": manifest})
    with pytest.raises(InputError, match="not a generated project"):
        Simulator(tmp_path / "nowhere")


def test_a_plan_with_other_places_gives_the_same_bits(tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path)
    x, y = samples()
    states = set()
    for reorder in (False, True):
        made = plan(graph, reorder=reorder)
        moved = {name: offset + 64 for name, offset in made.offsets.items()}
        scratch = {name: offset + 64 for name, offset in made.scratch_offsets.items()}
        for p in (
            made,
            replace(
                made, offsets=moved, scratch_offsets=scratch, arena_bytes=made.arena_bytes + 64
            ),
        ):
            simulator = Simulator(generate(p))
            simulator.train(x, y, RATE)
            states.add(simulator.state())
    assert len(states) == 1


def test_portable_and_simd_kernels_end_in_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = samples()
    states = []
    for kernels in ("portable", ""):
        monkeypatch.setenv("TINYTRAIN_HOST_KERNELS", kernels)
        simulator = make(tmp_path)
        simulator.train(x, y, RATE)
        states.append(simulator.state())
    assert states[0] == states[1]
