"""The example application in QEMU: built by PlatformIO, trained over its serial port."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen import generate, write_project
from tests.codegen.models import CLASSES, tiny_plan
from tinytrain.boards import Board, get_board, load_boards
from tinytrain.errors import ToolError
from tinytrain.pipeline import RunOptions, Training, simulate, start_run
from tinytrain.toolchain.link import Link
from tinytrain.toolchain.link_transport import EmulatedDevice, SerialLine
from tinytrain.toolchain.platformio import Firmware, build_project, build_projects
from tinytrain.toolchain.simulator import Simulator
from tinytrain.train import TrainOptions

pytestmark = [pytest.mark.arm, pytest.mark.qemu]

BOARDS = tuple(board for board in load_boards() if board.status == "emulated")
APPLICATION_BYTES = 4096
"""What application and link may take beside the model and the stack."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("application")
    write_project(generate(tiny_plan(folder), boards=BOARDS), folder / "project")
    return folder / "project"


@pytest.fixture(scope="module")
def firmware(project: Path) -> dict[str, Firmware]:
    """The application for all emulated boards, built in one go."""
    return build_projects(project, [board.name for board in BOARDS])


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_train_save_cut_the_power_go_on(
    project: Path, firmware: dict[str, Firmware], board: Board, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (60, 6, 6, 3)).astype(np.int8)
    y = rng.integers(0, CLASSES, 60)
    simulator = Simulator(project)
    simulator.set_seed(5)
    built, flash = firmware[board.name], tmp_path / "device.flash"
    with Link(EmulatedDevice(built.elf, board, flash)) as link:
        link.configure(seed=5, step_index=0)
        losses = link.train(x, y, 0.03)
        assert losses.tobytes() == simulator.train(x, y, 0.03).tobytes()
        assert link.save().sequence == 1
        link.train(x[:10], y[:10], 0.03)  # which the power cut takes away
    with Link(EmulatedDevice(built.elf, board, flash)) as link:
        assert link.hello.step_index == 60
        assert link.state() == simulator.state()
        link.train(x, y, 0.03)
        simulator.train(x, y, 0.03)
        assert link.state() == simulator.state()
        assert link.infer(x[:5]).tobytes() == simulator.infer(x[:5]).tobytes()


def test_ram_of_application_and_link(project: Path, firmware: dict[str, Firmware]) -> None:
    memory = Simulator(project).project.memory_bytes
    for name, built in firmware.items():
        taken = built.size.data_bytes + built.size.bss_bytes - memory
        assert 0 < taken <= APPLICATION_BYTES, name


def test_only_kernels_that_are_named_are_compiled(firmware: dict[str, Firmware]) -> None:
    for built in firmware.values():
        names = {path.stem for path in built.elf.parent.rglob("tt_*.o")}
        assert names >= {"tt_conv2d_s8", "tt_update", "tt_matmul_dsp", "tt_store"}
        assert not names & {"tt_softmax_s8", "tt_add_s8", "tt_max_pool2d_s8", "tt_row_chain"}


def test_no_heap_is_linked(firmware: dict[str, Firmware]) -> None:
    for built in firmware.values():
        text = built.map.read_text("utf-8", "replace")
        assert "_malloc_r" not in text and "_sbrk" not in text


OWN_SAMPLES = """
#include "app.h"

/* Twenty samples of the device's own, saved after the last. */
tt_app_action tt_app_sample(int8_t *input, tt_target *target)
{
    static uint32_t turn;
    if (turn == 20u || tt_app_set_learning_rate(0.03f) != TT_OK) {
        return TT_APP_NOTHING;
    }
    for (uint32_t i = 0; i < TINY_INPUT_BYTES; i++) {
        input[i] = (int8_t)(uint8_t)(turn * 31u + i * i);
    }
    *target = tt_class_target((int32_t)(turn % 5u));
    turn++;
    return TT_APP_LEARN;
}

void tt_app_learned(const tt_step_report *report)
{
    if (report->step_index == 19u) {
        (void)(tt_app_save() == TT_OK); /* nobody to tell of an error */
    }
}
"""


def test_a_device_that_learns_by_itself(tmp_path: Path) -> None:
    board = get_board("mps2-an386")
    write_project(generate(tiny_plan(tmp_path), boards=[board]), tmp_path / "project")
    (tmp_path / "project" / "src" / "own.c").write_text(OWN_SAMPLES)
    built = build_project(tmp_path / "project", board.name)
    turn, i = np.arange(20)[:, None], np.arange(108)
    x = (turn * 31 + i * i).astype(np.uint8).view(np.int8).reshape(20, 6, 6, 3)
    simulator = Simulator(tmp_path / "project")
    simulator.train(x, np.arange(20) % CLASSES, 0.03)
    with Link(EmulatedDevice(built.elf, board, tmp_path / "device.flash")) as link:
        while (counters := link.statistics()).step_index < 20:
            pass
        assert (counters.saved_step_index, counters.trained) == (20, 0)
        assert link.state() == simulator.state()


def test_an_emulator_that_ends(firmware: dict[str, Firmware]) -> None:
    board = get_board("mps2-an386")
    wrong = firmware["mps3-an547"].elf  # lies where this machine has no memory
    with pytest.raises(ToolError):
        Link(EmulatedDevice(wrong, board), timeout_s=0.2, attempts=2)


def test_a_port_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be opened"):
        SerialLine(str(tmp_path / "ttyACM7"))


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mps2-an386", TrainOptions(classes=10, seed=3)),
        # of its 128 KB the weight state int16 takes too much
        ("netduinoplus2", TrainOptions(classes=10, seed=3, weight_state="int8")),
        ("mps2-an500", TrainOptions(classes=10, seed=3, rounding="nearest")),
    ],
)
def test_keywords_over_the_link(
    zoo: Path, tmp_path: Path, name: str, options: TrainOptions
) -> None:
    """Every layer learns spoken digits, to the bits of the simulator."""
    training = Training(zoo / "models" / "mlperf_kws_ref_model.tflite", "full", options)
    run = start_run(training, zoo / "tasks" / "kws_digits.npz", RunOptions(seed=3), steps=50)
    data, board = run.data, get_board(name)
    write_project(generate(run.prepared.plan, boards=(board,)), tmp_path / "project")
    built = build_project(tmp_path / "project", name)
    with Link(EmulatedDevice(built.elf, board)) as link:
        link.configure(seed=run.seed, step_index=0)
        link.train(data.x_train, data.y_train, run.rates, order=run.order)
        digest = hashlib.sha256(link.state()).hexdigest()
    few = replace(data, x_test=data.x_test[:1], y_test=data.y_test[:1])
    assert digest == simulate(replace(run, data=few)).state_sha256
