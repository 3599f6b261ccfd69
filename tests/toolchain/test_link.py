"""The link: what the client says and what the device's C makes of it, over good and bad lines."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from codegen import generate
from tests.codegen.models import CLASSES, tiny_plan
from tests.support.noisy_line import NoisyLine
from tinytrain.errors import InputError, ToolError, UsageError
from tinytrain.interp import Interpreter
from tinytrain.numeric.error_scale import MIN_RANGE, error_limit, next_range
from tinytrain.ops import fold_error
from tinytrain.ops.base import Step
from tinytrain.toolchain.link import Link, StepReport
from tinytrain.toolchain.link_exchange import Exchange
from tinytrain.toolchain.link_frames import ANSWER, REFUSAL, Decoder, Frame, Kind, Reason, encode
from tinytrain.toolchain.link_simulator import SimulatedDevice
from tinytrain.toolchain.simulator import Simulator
from tinytrain.train import TrainOptions

Files = dict[str, bytes]
F32 = np.float32


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return generate(tiny_plan(tmp_path_factory.mktemp("link")))


def samples(count: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(2)
    x = rng.integers(-128, 128, (count, 6, 6, 3)).astype(np.int8)
    return x, rng.integers(0, CLASSES, count)


def test_hello_says_what_the_model_is(files: Files) -> None:
    device = SimulatedDevice(files)
    hello, project = Link(device).hello, device.project
    assert (hello.name, hello.fingerprint) == (project.name, project.fingerprint)
    assert hello.state_bytes == project.state_bytes
    assert hello.memory_bytes == project.memory_bytes
    assert (hello.input_bytes, hello.input_zero_point) == (108, -5)
    assert hello.input_scale == pytest.approx(0.02)
    assert (hello.target, hello.classes, hello.output_dtype) == ("class", CLASSES, "float32")
    assert hello.trainable and hello.has_storage and not hello.batches and not hello.half_state


def test_saturation_is_what_the_definition_cuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny_plan(tmp_path)
    cut: list[bool] = []

    def counting(range_: F32, unit: F32, accumulator: Any, *, calibrating: bool = False) -> F32:
        limit = max(error_limit(range_, unit), MIN_RANGE)
        cut.append(bool(np.max(np.abs(accumulator)) > limit))
        return next_range(range_, unit, accumulator, calibrating=calibrating)

    monkeypatch.setattr(fold_error, "next_range", counting)
    x, y = samples(30)
    interpreter = Interpreter(made.graph)
    wanted = []
    for i in range(30):
        cut.clear()
        interpreter.train_step(x[i : i + 1], Step(3, i, F32(0.05), target=int(y[i])))
        wanted.append((len(cut), sum(cut)))
    link, reports = Link(SimulatedDevice(generate(made))), list[StepReport]()
    link.configure(seed=3, step_index=0)
    link.train(x, y, 0.05, on_step=reports.append)
    assert [(report.errors, report.saturated) for report in reports] == wanted
    assert wanted[0][1] > 0 and any(count == 0 for _, count in wanted)


def test_a_batch_over_the_link(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path, options=TrainOptions(batch=4)))
    x, y = samples(40)
    link, simulator = Link(SimulatedDevice(files)), Simulator(files)
    assert link.hello.batches and link.hello.batch == 1
    link.configure(seed=5, step_index=0, batch=4)
    simulator.set_seed(5)
    simulator.set_batch(4)
    reports: list[StepReport] = []
    losses = link.train(x, y, 0.05, on_step=reports.append)
    assert losses.tobytes() == simulator.train(x, y, 0.05).tobytes()
    assert link.state() == simulator.state()
    assert [report.applied for report in reports] == [False, False, False, True] * 10


def test_the_same_as_the_simulator(files: Files) -> None:
    x, y = samples(200)
    link, simulator = Link(SimulatedDevice(files)), Simulator(files)
    link.configure(seed=5, step_index=7)
    simulator.set_seed(5)
    simulator.step_index = 7
    order = np.random.default_rng(0).integers(0, 200, 300)
    rates = np.linspace(0.05, 0.0, 300).astype(np.float32)
    reports: list[StepReport] = []
    losses = link.train(x, y, rates, order=order, on_step=reports.append)
    assert losses.tobytes() == simulator.train(x, y, rates, order=order).tobytes()
    assert link.state() == simulator.state()
    assert [report.step_index for report in reports] == list(range(7, 307))
    scores = link.infer(x[:20])
    assert scores.tobytes() == simulator.infer(x[:20]).tobytes()
    found = link.evaluate(x, y)
    assert found.samples == 200
    assert found.correct == int(np.sum(simulator.predict(x) == y))
    assert found.mean_score == pytest.approx(
        float(np.mean(simulator.infer(x)[np.arange(200), y])), rel=1e-4
    )
    statistics = link.statistics()
    assert (statistics.trained, statistics.step_index, statistics.repeated) == (300, 307, 0)


def test_values_as_targets_and_batches(tmp_path: Path) -> None:
    made = generate(tiny_plan(tmp_path, "full", TrainOptions(loss="mse", batch=4)))
    x, _ = samples(40)
    targets = np.random.default_rng(1).integers(-128, 128, (40, CLASSES)).astype(np.int8)
    link, simulator = Link(SimulatedDevice(made)), Simulator(made)
    link.configure(seed=3, step_index=0, batch=4)
    simulator.set_seed(3)
    simulator.set_batch(4)
    applied: list[bool] = []
    losses = link.train(x, targets, 0.1, on_step=lambda report: applied.append(report.applied))
    assert losses.tobytes() == simulator.train(x, targets, 0.1).tobytes()
    assert link.state() == simulator.state()
    assert applied == [False, False, False, True] * 10
    assert link.infer(x[:3]).tobytes() == simulator.infer(x[:3]).tobytes()
    gaps = (simulator.infer(x).astype(int) - targets) ** 2
    assert link.evaluate(x, targets).mean_score == pytest.approx(float(gaps.mean()), rel=1e-5)


# ---- the state ----


def test_save_power_cut_load(files: Files) -> None:
    x, y = samples(60)
    device = SimulatedDevice(files)
    link = Link(device)
    with pytest.raises(ToolError, match="no whole state"):
        link.load()
    link.configure(seed=5, step_index=0)
    link.train(x[:30], y[:30], 0.05)
    saved, state = link.save(), link.state()
    assert (saved.sequence, saved.wear, saved.step_index) == (1, 1, 30)
    link.train(x[30:], y[30:], 0.05)
    device.restart()
    link = Link(device)
    assert link.hello.step_index == 0 and link.state() != state
    assert link.load().step_index == 30
    assert link.state() == state
    simulator = Simulator(files)
    simulator.set_seed(5)
    simulator.train(x, y, 0.05)
    link.train(x[30:], y[30:], 0.05)  # seed and step index came with the state
    assert link.state() == simulator.state()


def test_a_restart_is_noticed(files: Files) -> None:
    x, y = samples(10)
    device = SimulatedDevice(files)
    link = Link(device)
    link.train(x, y, 0.05)
    device.restart()
    with pytest.raises(ToolError, match="restarted"):
        link.train(x, y, 0.05)


def test_write_a_state(files: Files) -> None:
    x, y = samples(30)
    link, other = Link(SimulatedDevice(files)), Link(SimulatedDevice(files))
    link.train(x, y, 0.05)
    other.set_state(link.state(), step_index=30, seed=0)
    assert other.state() == link.state()
    assert other.statistics().step_index == 30
    with pytest.raises(InputError, match="has 3 bytes"):
        other.set_state(b"abc")
    other.reset()
    assert other.state() == Simulator(files).state()


def test_half_a_state_is_nobodys(files: Files) -> None:
    x, y = samples(2)
    device = SimulatedDevice(files)
    link, exchange = Link(device), Exchange(device)
    state = Simulator(files).state()
    assert exchange.ask(Kind.WRITE_STATE, bytes(4) + state[:100]) == bytes(4)
    link = Link(device)  # the writer is gone
    assert link.hello.half_state
    for call in (
        lambda: link.train(x, y, 0.1),
        lambda: link.infer(x),
        lambda: link.evaluate(x, y),
        link.save,
        link.state,
    ):
        with pytest.raises(ToolError, match="half written"):
            call()
    link.set_state(state)
    assert link.state() == state and link.infer(x).shape == (2, CLASSES)


# ---- bad lines ----


def test_ten_thousand_samples_over_a_bad_line(files: Files) -> None:
    x, y = samples(1000)
    order = np.random.default_rng(3).integers(0, 1000, 10_000)
    line = NoisyLine(SimulatedDevice(files), seed=4, drop=0.01, corrupt=0.01)
    link = Link(line)
    link.configure(seed=9, step_index=0)
    steps: list[int] = []
    losses = link.train(x, y, 0.01, order=order, on_step=lambda r: steps.append(r.step_index))
    simulator = Simulator(files)
    simulator.set_seed(9)
    assert steps == list(range(10_000))
    assert losses.tobytes() == simulator.train(x, y, 0.01, order=order).tobytes()
    assert hashlib.sha256(link.state()).digest() == hashlib.sha256(simulator.state()).digest()
    line.quiet = True
    statistics = link.statistics()
    assert statistics.trained == statistics.step_index == 10_000
    assert line.harmed > 300 and statistics.damaged > 50 and statistics.repeated > 50


@pytest.mark.parametrize("seed", range(6))
def test_everything_over_a_very_bad_line(files: Files, seed: int) -> None:
    x, y = samples(150)
    line = NoisyLine(SimulatedDevice(files), seed, drop=0.05, corrupt=0.05, double=0.05, cut=0.05)
    link = Link(line, attempts=50)
    simulator = Simulator(files)
    for _ in range(3):
        link.train(x, y, 0.02)
        simulator.train(x, y, 0.02)
        assert link.state() == simulator.state()
        assert link.infer(x[:30]).tobytes() == simulator.infer(x[:30]).tobytes()
        assert link.evaluate(x, y).correct == int(np.sum(simulator.predict(x) == y))
    saved = link.save()
    assert saved.sequence == 1 and saved.step_index == 450


class LargeModel(SimulatedDevice):
    """Says that its frames are short, so that inputs go in pieces."""

    def receive(self, timeout_s: float) -> bytes:
        data = super().receive(timeout_s)
        parts = [
            Frame(f.kind, f.session, f.sequence, _shorten(f.payload))
            if f.kind == Kind.HELLO + ANSWER
            else f
            for f in Decoder().feed(data)
        ]
        return b"".join(encode(part) for part in parts)


def _shorten(hello: bytes) -> bytes:
    return hello[:32] + struct.pack("<I", 64) + hello[36:]


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_inputs_in_pieces(files: Files, noise: float) -> None:
    x, y = samples(100)
    link = Link(NoisyLine(LargeModel(files), 1, drop=noise, corrupt=noise), attempts=50)
    assert link.hello.payload_bytes == 64
    simulator = Simulator(files)
    assert link.train(x, y, 0.02).tobytes() == simulator.train(x, y, 0.02).tobytes()
    assert link.infer(x).tobytes() == simulator.infer(x).tobytes()
    assert link.evaluate(x, y).samples == 100
    assert link.state() == simulator.state()


def test_stop_leaves_a_known_state(files: Files) -> None:
    x, y = samples(100)
    link, simulator = Link(SimulatedDevice(files)), Simulator(files)
    done: list[int] = []
    losses = link.train(
        x, y, 0.02, on_step=lambda report: done.append(report.step_index),
        stop=lambda: len(done) >= 40,
    )  # fmt: skip
    assert 40 <= len(losses) <= 50
    simulator.train(x[: len(losses)], y[: len(losses)], 0.02)
    assert link.state() == simulator.state()


class Dead:
    name = "dead"

    def send(self, data: bytes) -> None:
        pass

    def receive(self, timeout_s: float) -> bytes:
        return b""

    def close(self) -> None:
        pass


def test_a_silent_device() -> None:
    with pytest.raises(ToolError, match="silent"):
        Link(Dead())


def test_another_version_is_refused(files: Files) -> None:
    device = SimulatedDevice(files)
    device.send(encode(Frame(Kind.HELLO, 7, 0, b"", version=9)))
    (answer,) = Decoder().feed(device.receive(0))
    assert (answer.kind, answer.payload) == (REFUSAL, bytes([Reason.PROTOCOL]))


def test_what_does_not_fit(files: Files) -> None:
    x, y = samples(4)
    link = Link(SimulatedDevice(files))
    with pytest.raises(InputError, match="inputs must be int8"):
        link.infer(x.astype(np.float32))
    with pytest.raises(InputError, match="targets"):
        link.train(x, y[:2], 0.1)
    with pytest.raises(InputError, match="type float"):
        link.train(x, y.astype(np.float32), 0.1)
    with pytest.raises(ToolError, match="status -4"):
        link.train(x, y + CLASSES, 0.1)
    with pytest.raises(ToolError, match="status -6"):
        link.configure(seed=0, step_index=0, batch=4)
    assert link.statistics().step_index == 0


def test_a_program_without_training(tmp_path: Path) -> None:
    x, y = samples(3)
    link = Link(SimulatedDevice(generate(tiny_plan(tmp_path, "none"))))
    assert not link.hello.trainable and link.infer(x).dtype == np.int8
    with pytest.raises(UsageError, match="only infer"):
        link.train(x, y, 0.1)
