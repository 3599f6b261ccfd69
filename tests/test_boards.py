"""Board files: what is read, what follows from it, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tinytrain.boards import (
    Board,
    Region,
    get_board,
    load_boards,
    optimized,
    platformio_manifest,
    read_board,
)
from tinytrain.errors import InputError, UsageError
from tinytrain.resources import data_dir

GOOD = (data_dir("boards") / "mps2-an386.toml").read_text()


def parse(folder: Path, text: str) -> Board:
    path = folder / "mine.toml"
    path.write_text(text)
    return read_board(path)


def test_boards_of_the_project() -> None:
    boards = load_boards()
    assert {board.name for board in boards if board.status == "emulated"} == {
        "mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547", "netduinoplus2",
    }  # fmt: skip
    assert len(boards) >= 16
    for board in boards:
        assert get_board(board.name) == board
        assert hash(board) == hash(get_board(board.name))
        assert board.platformio.is_local == (board.emulator is not None)
        assert board.platformio.is_local or board.platformio.framework == "arduino"


def test_the_usart_of_an_stm32() -> None:
    assert "TT_PORT_UART_STM32=1" in get_board("netduinoplus2").defines
    assert not any("STM32" in text for text in get_board("mps2-an386").defines)


def test_memories_are_those_of_the_product() -> None:
    m4, m7 = get_board("mps2-an386"), get_board("mps2-an500")
    assert m4.flash == m7.flash == Region(0, 1 << 20)
    assert m4.ram == Region(0x2000_0000, 256 * 1024)
    assert m7.ram == Region(0x2000_0000, 320 * 1024)
    assert m4.emulator is not None
    assert m4.emulator.ram_bytes == 4 << 20


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    assert parse(tmp_path, "\ufeff" + GOOD).mcu == parse(tmp_path, GOOD).mcu


def test_unknown_board_lists_the_names() -> None:
    with pytest.raises(UsageError) as caught:
        get_board("../boards/mps2-an386")
    assert "mps2-an386" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("mps2-an385", "-mthumb -mcpu=cortex-m3 -mfloat-abi=soft"),
        ("mps2-an386", "-mthumb -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16"),
        ("mps2-an500", "-mthumb -mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-d16"),
    ],
)
def test_compiler_flags(name: str, flags: str) -> None:
    assert " ".join(get_board(name).arch_flags) == flags


@pytest.mark.parametrize(
    ("core", "fpu", "features", "flags"),
    [
        ("cortex-m0plus", "none", "", "-mcpu=cortex-m0plus -mfloat-abi=soft"),
        ("cortex-m4", "none", '"dsp"', "-mcpu=cortex-m4 -mfloat-abi=soft"),
        ("cortex-m7", "sp", '"dsp"', "-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-sp-d16"),
        ("cortex-m33", "sp", '"dsp"', "-mcpu=cortex-m33 -mfloat-abi=hard -mfpu=fpv5-sp-d16"),
        ("cortex-m33", "none", "", "-mcpu=cortex-m33+nodsp -mfloat-abi=soft"),
        ("cortex-m55", "dp", '"mve", "dsp"', "-mcpu=cortex-m55 -mfloat-abi=hard -mfpu=auto"),
    ],
)
def test_compiler_flags_of_other_cores(
    tmp_path: Path, core: str, fpu: str, features: str, flags: str
) -> None:
    text = GOOD.replace('"cortex-m4"', f'"{core}"').replace('"sp"', f'"{fpu}"')
    board = parse(tmp_path, text.replace('["dsp"]', f"[{features}]"))
    assert " ".join(board.arch_flags) == f"-mthumb {flags}"


def test_a_board_without_emulator(tmp_path: Path) -> None:
    head, _, tail = GOOD.partition("[emulator]")
    tail = tail[tail.index("[platformio]") :]
    board = parse(tmp_path, head.replace('"emulated"', '"described"') + tail)
    assert board.emulator is None
    assert board.defines == ()


def test_manifest_is_deterministic_json() -> None:
    board = get_board("mps2-an386")
    text = platformio_manifest(board)
    assert text == platformio_manifest(board)
    manifest = json.loads(text)
    assert manifest["upload"]["maximum_ram_size"] == 256 * 1024
    assert manifest["build"]["arch_flags"] == list(board.arch_flags)
    assert "TT_PORT_SYSTICK_HZ=25000000u" in manifest["build"]["defines"]
    assert manifest["build"]["ldscript"] == "boards/mps2-an386.ld"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('core = "cortex-m4"', "", "core is missing"),
        ('core = "cortex-m4"', 'core = "cortex-m9"', "must be one of"),
        ('core = "cortex-m4"', 'core = "cortex-m3"', "no 'sp' FPU"),
        ('core = "cortex-m4"', "core = 4", "core must be a text"),
        ('fpu = "sp"', 'fpu = "dp"', "no 'dp' FPU"),
        ('["dsp"]', "[]", "every cortex-m4 has dsp"),
        ('["dsp"]', '["dsp", "mve"]', "has no mve"),
        ('["dsp"]', "3", "must be a list"),
        ('["dsp"]', "[[]]", "must be a list"),
        ("clock_hz = 25_000_000", "clock_hz = 0", "clock_hz must be above 0"),
        ("clock_hz = 25_000_000", "clock_hz = true", "integer"),
        ("bytes = 0x4_0000", "bytes = -1", "ram.bytes must be an integer"),
        ("bytes = 0x4_0000", "bytes = 0x1_0000_0000", "ram.bytes must be an integer"),
        ("bytes = 0x4_0000", "bytes = 1001", "multiples of 8"),
        ("bytes = 0x4_0000", "bytes = 0x80_0000", "must not be smaller"),
        ("origin = 0x2000_0000", "origin = 0xffff_fff8", "beyond 32 bits"),
        ("origin = 0x2000_0000", "origin = 0x8_0000", "overlap"),
        ("[ram]", "ram = 3\n[other]", "unknown|must be a table|missing"),
        ("uart_base", "uart_bass", "uart_base is missing"),
        ('status = "emulated"', 'status = "emulated"\ncolour = "red"', "unknown: colour"),
        ("[flash]", "[flash]\nspeed = 1", "unknown: flash.speed"),
        ("title =", "title", "TOML"),
    ],
)
def test_bad_boards_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=message) as caught:
        parse(tmp_path, GOOD.replace(old, new, 1))
    assert caught.value.code == "bad-board"
    assert caught.value.where == "mine.toml"
    assert caught.value.hint


def test_not_text(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError):
        read_board(tmp_path / "mine.toml")
    with pytest.raises(InputError):
        load_boards(tmp_path)


def test_optimization_of_local_boards_only() -> None:
    small = optimized(get_board("mps2-an386"), "size")
    assert json.loads(platformio_manifest(small))["build"]["optimization"] == "-Os"
    assert optimized(get_board("teensy41"), "speed").optimize == "speed"
    with pytest.raises(UsageError) as caught:
        optimized(get_board("teensy41"), "size")
    assert caught.value.code == "fixed-optimization"
