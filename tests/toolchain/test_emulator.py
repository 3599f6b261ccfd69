"""The firmware in QEMU against the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen import generate, write_project
from tests.codegen.models import CLASSES, tiny_plan
from tinytrain.boards import get_board
from tinytrain.errors import InputError, ToolError
from tinytrain.toolchain.emulator import emulate
from tinytrain.toolchain.job import Job, JobItem, training_job
from tinytrain.toolchain.simulator import Simulator
from tinytrain.train import TrainOptions

BOARDS = ["mps2-an385", "mps2-an386", "mps2-an500"]

pytestmark = [pytest.mark.arm, pytest.mark.qemu]


def samples() -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(2)
    x = rng.integers(-128, 128, (50, 6, 6, 3)).astype(np.int8)
    return x, rng.integers(0, CLASSES, 50)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project for all boards, in batches of four."""
    folder = tmp_path_factory.mktemp("emulator")
    made = tiny_plan(folder, "full", TrainOptions(batch=4))
    write_project(generate(made, boards=[get_board(b) for b in BOARDS]), folder / "project")
    return folder / "project"


@pytest.mark.parametrize("board", BOARDS)
def test_fifty_steps_end_with_the_simulators_bits(project: Path, board: str) -> None:
    x, y = samples()
    lines: list[str] = []
    job = training_job(x, y, 0.03, seed=5, batch=4, infer=x[:4])
    report = emulate(project, get_board(board), job, on_line=lines.append)
    simulator = Simulator(project)
    simulator.set_seed(5)
    simulator.set_batch(4)
    assert report.losses.tobytes() == simulator.train(x, y, 0.03).tobytes()
    assert report.outputs.tobytes() == simulator.infer(x[:4]).tobytes()
    assert report.state == simulator.state()
    assert len(report.instructions_train_steps) == 50
    assert report.instructions_infer is not None and report.instructions_train_step is not None
    assert 0 < report.instructions_infer < report.instructions_train_step
    assert 0 < report.stack_bytes < 2048
    memory = simulator.project.memory_bytes
    assert memory <= report.data_bss_bytes <= memory + 1024
    assert report.flash_bytes > 0
    assert any(line.startswith("Compiling .pio/build/") and "job.o" in line for line in lines)
    assert any(line.startswith("Linking .pio/build/") for line in lines)
    assert any("[SUCCESS]" in line for line in lines)


def test_an_error_of_a_call_is_an_error(project: Path) -> None:
    x, _ = samples()
    job = Job((JobItem("train", x[0], CLASSES, 0.1),))
    with pytest.raises(ToolError, match="status -4"):
        emulate(project, get_board("mps2-an386"), job)


def test_a_model_larger_than_the_board(tmp_path: Path) -> None:
    made = tiny_plan(tmp_path)
    files = generate(made, boards=[get_board("mps2-an386")], stack_bytes=256 * 1024)
    write_project(files, tmp_path / "project")
    x, _ = samples()
    with pytest.raises(InputError, match="RAM than the board has"):
        emulate(tmp_path / "project", get_board("mps2-an386"), Job((JobItem("infer", x[0]),)))
