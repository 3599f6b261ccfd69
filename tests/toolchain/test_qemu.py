"""The port and the emulator: what firmware sees and what comes back, on every emulated board."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from tinytrain.boards import get_board, load_boards
from tinytrain.errors import ToolError, UsageError
from tinytrain.toolchain import qemu
from tinytrain.toolchain.qemu import EmulatorRun, run_firmware

from .conftest import BuildProbe

EMULATED = [board.name for board in load_boards() if board.status == "emulated"]
INSTRUCTIONS_PER_TICK = 40
# Makes SysTick overflow every 10,240 instructions instead of every 671 million.
SHORT_PERIOD = "-DTT_PORT_SYSTICK_RELOAD=0xff"

pytestmark = [pytest.mark.arm, pytest.mark.qemu]


@pytest.fixture(params=EMULATED)
def board_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(build_probe: BuildProbe, board_name: str, *words: str, flags: str = "") -> EmulatorRun:
    firmware = build_probe(board_name, flags)
    return run_firmware(firmware.elf, get_board(board_name), arguments=words, timeout_s=60)


def test_variables_are_set_up_and_printed(build_probe: BuildProbe, board_name: str) -> None:
    done = run(build_probe, board_name)
    assert done.stdout == "platform 0, data 42, bss 0, negative -2147483648\n"
    assert done.exit_code == 0
    assert done.stderr == ""


@pytest.mark.parametrize("code", [0, 1, 7, 124, 255])
def test_exit_code_passes_through(build_probe: BuildProbe, board_name: str, code: int) -> None:
    assert run(build_probe, board_name, "exit", str(code)).exit_code == code


def test_instructions_of_a_known_loop(build_probe: BuildProbe, board_name: str) -> None:
    short, long = (
        int(run(build_probe, board_name, "count", str(turns)).stdout)
        for turns in (1_000_000, 3_000_000)
    )
    assert abs(long - short - 4_000_000) <= INSTRUCTIONS_PER_TICK
    assert 0 <= short - 2_000_000 < 200  # the reading itself


def test_equal_runs_count_equally(build_probe: BuildProbe, board_name: str) -> None:
    first = run(build_probe, board_name, "count", "123457")
    second = run(build_probe, board_name, "count", "123457")
    assert first == second


def test_counter_survives_overflow(build_probe: BuildProbe, board_name: str) -> None:
    turns = 2_000_000
    counted = int(run(build_probe, board_name, "count", str(turns), flags=SHORT_PERIOD).stdout)
    periods = 2 * turns // (256 * INSTRUCTIONS_PER_TICK)
    interrupts = counted - 2 * turns
    assert 0 < interrupts < periods * INSTRUCTIONS_PER_TICK


def test_counter_never_jumps(build_probe: BuildProbe, board_name: str) -> None:
    done = run(build_probe, board_name, "steps", "20000", flags=SHORT_PERIOD)
    smallest, largest = map(int, done.stdout.split())
    assert 0 <= smallest <= largest <= 8 * INSTRUCTIONS_PER_TICK


def test_stack_use_of_a_2_kb_array(build_probe: BuildProbe, board_name: str) -> None:
    before, after, repainted = map(int, run(build_probe, board_name, "stack").stdout.split())
    assert before < 512
    assert 2048 <= after - before < 2048 + 256
    assert repainted < 512


def test_stack_overflow_is_a_reported_fault(build_probe: BuildProbe, board_name: str) -> None:
    done = run(build_probe, board_name, "overflow")
    assert done.faulted
    assert "stack overflow" in done.stdout


def test_bus_fault_is_reported_with_its_address(build_probe: BuildProbe, board_name: str) -> None:
    done = run(build_probe, board_name, "fault")
    assert done.faulted
    assert "fault: exception 3, pc 0x" in done.stdout
    assert "bfar 0xf0000000" in done.stdout


def test_no_fused_multiply_add(build_probe: BuildProbe, board_name: str) -> None:
    assert run(build_probe, board_name, "contraction").stdout == "00000000"


def test_files_are_those_of_the_working_folder(
    build_probe: BuildProbe, board_name: str, tmp_path: Path
) -> None:
    content = random.Random(1).randbytes(123_456)
    (tmp_path / "in.bin").write_bytes(content)
    done = run_firmware(
        build_probe(board_name).elf,
        get_board(board_name),
        arguments=["copy", "in.bin", "out.bin"],
        working_dir=tmp_path,
    )
    assert done.exit_code == 0
    assert (tmp_path / "out.bin").read_bytes() == content


def test_missing_file_is_seen_by_the_firmware(
    build_probe: BuildProbe, board_name: str, tmp_path: Path
) -> None:
    elf = build_probe(board_name).elf
    done = run_firmware(
        elf, get_board(board_name), arguments=["copy", "none", "out"], working_dir=tmp_path
    )
    assert (done.exit_code, done.stdout) == (2, "no file")


def test_endless_firmware_is_stopped(build_probe: BuildProbe) -> None:
    firmware = build_probe("mps2-an386")
    with pytest.raises(ToolError) as caught:
        run_firmware(firmware.elf, get_board("mps2-an386"), arguments=["spin"], timeout_s=0.5)
    assert caught.value.code == "emulator-timeout"


def test_not_a_firmware(tmp_path: Path) -> None:
    text = tmp_path / "text.elf"
    with pytest.raises(ToolError) as caught:
        run_firmware(text, get_board("mps2-an386"), timeout_s=10)
    assert caught.value.code == "emulator-failed"


@pytest.mark.parametrize("word", ["two words", "a,b", ""])
def test_words_that_cannot_be_handed_over(tmp_path: Path, word: str) -> None:
    with pytest.raises(UsageError):
        run_firmware(tmp_path / "x.elf", get_board("mps2-an386"), arguments=[word])


def test_board_without_machine(tmp_path: Path) -> None:
    board = dataclasses.replace(get_board("mps2-an386"), emulator=None)
    with pytest.raises(UsageError):
        run_firmware(tmp_path / "x.elf", board)


def test_missing_qemu_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "PROGRAM", "qemu-system-none")
    with pytest.raises(ToolError, match="apt install qemu-system-arm") as caught:
        run_firmware(tmp_path / "x.elf", get_board("mps2-an386"))
    assert caught.value.exit_code == 3
