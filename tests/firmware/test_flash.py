"""The flash drivers of the Arduino port, run on this machine against models of the vendors' calls.

What is seen: each driver erases and programs what the part allows, where the board's file says, and
the state store works on it. No part was involved; test_arduino.py compiles the same files for Arm.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.needs import need
from tinytrain.boards import Board, get_board, load_boards
from tinytrain.resources import data_dir
from tinytrain.toolchain.host import STRICT_FLAGS

HERE = Path(__file__).resolve().parent
FIRMWARE = data_dir("firmware")
PORT = FIRMWARE / "ports" / "board_arduino"
LIBRARIES = [FIRMWARE / "lib" / name / "src" for name in ("tt_kernels", "tt_runtime")]
SDK = "pico with a core on the Pico SDK"


@dataclass(frozen=True)
class Core:
    """A stand-in for a core: its folder, its defines, and symbols of its linker script."""

    folder: str
    defines: tuple[str, ...]
    symbols: tuple[tuple[str, int], ...]
    units: tuple[str, ...] = ()

    @property
    def flags(self) -> list[str]:
        """Include folders and defines."""
        folders = [HERE / "flash" / self.folder] if self.folder else []
        defines = [f"-D{name}" for name in (*self.defines, *self.units)]
        # This machine's linker has symbols of these names too.
        defines += [f"-D{name}=part{name}" for name, _ in self.symbols]
        return [*(f"-I{path}" for path in folders), f"-I{HERE / 'arduino'}", *defines]


def _stm32(*parts: str) -> Core:
    symbols = (("_sidata", 0x0800_9000), ("_sdata", 0x2000_0000), ("_edata", 0x2000_0100))
    return Core("stm32", ("ARDUINO_ARCH_STM32", *parts), symbols)


def _mbed(start: int, size: int, page: int, sector: int, *more: str) -> Core:
    symbols = (
        ("__etext", start + 0x41000), ("__data_start__", 0x2000_0000), ("__data_end__", 0x2000_0200)
    )  # fmt: skip
    values = {"START": start, "SIZE": size, "PAGE": page, "UNIT": page, "SECTOR": sector}
    units = tuple(f"MODEL_{name}={value}u" for name, value in values.items())
    return Core("mbed", ("ARDUINO_ARCH_MBED", *more), symbols, units)


CORES = {
    "disco-f746ng": _stm32("STM32F7xx", "STM32F746xx"),
    "nucleo-f746zg": _stm32("STM32F7xx", "STM32F746xx"),
    "nucleo-h743zi": _stm32("STM32H7xx", "STM32H743xx"),
    "nucleo-f411re": _stm32("STM32F4xx", "STM32F411xE"),
    "nucleo-l476rg": _stm32("STM32L4xx", "STM32L476xx"),
    "nano33ble": _mbed(0, 0x10_0000, 4, 4096),
    "pico": _mbed(0x1000_0000, 0x20_0000, 256, 4096, "ARDUINO_ARCH_RP2040"),
    "portenta-h7": _mbed(0x0800_0000, 0x20_0000, 32, 0x2_0000, "TT_FLASH_END=0x08100000"),
    "teensy41": Core("", ("__IMXRT1062__", "ARDUINO_TEENSY41"), (("_flashimagelen", 0x1_2000),)),
    "metro-m4": Core(
        "samd51", ("__SAMD51__",),
        (("__etext", 0x9000), ("__data_start__", 0x2000_0000), ("__data_end__", 0x2000_0080)),
    ),
    SDK: Core(
        "rp2040", ("ARDUINO_ARCH_RP2040",),
        (("__flash_binary_end", 0x1001_0000), ("_FS_start", 0x101F_F000)),
    ),
}  # fmt: skip


def build(core: Core, into: Path) -> Path:
    """The driver of a core over its model, as a program at fixed addresses."""
    need("cxx")
    into.mkdir(exist_ok=True)
    common = ["-fno-pie", "-O1", "-c", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    common += [f"-I{folder}" for folder in (*LIBRARIES, PORT)]
    c_files = sorted(LIBRARIES[1].glob("*.c"))
    subprocess.run(["gcc", "-std=c11", *common, *map(str, c_files)], cwd=into, check=True)
    warnings = [w for w in STRICT_FLAGS if w not in ("-Wmissing-prototypes", "-Wconversion")]
    files = [*sorted(PORT.glob("tt_flash_*.cpp")), *sorted((HERE / "flash").glob("*.cpp"))]
    # A part's addresses have 32 bits, this machine's pointers 64.
    flags = ["-std=gnu++17", *warnings, "-Wno-int-to-pointer-cast", *core.flags, *common]
    subprocess.run(["g++", *flags, *map(str, files)], cwd=into, check=True)
    symbols = [f"-Wl,--defsym=part{name}={value}" for name, value in core.symbols]
    objects = sorted(map(str, into.glob("*.o")))
    command = ["g++", "-no-pie", "-fsanitize=undefined", *symbols, *objects, "-o", "driver"]
    subprocess.run(command, cwd=into, check=True)
    return into / "driver"


def place(driver: Path, state_bytes: int) -> tuple[int, int, int, int]:
    """Begin and end of the storage, its units, after five saves and loads."""
    done = subprocess.run(
        [str(driver), str(state_bytes)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    begin, end, erase, program = map(int, done.stdout.split())
    return begin, end, erase, program


def _check(board: Board, end: int, erase: int, program: int) -> None:
    assert board.state is not None
    assert (erase, program) == (board.state.erase_bytes, board.state.program_bytes)
    assert end == board.flash.origin + board.flash.bytes


@pytest.mark.parametrize("name", CORES)
def test_the_store_works_on_each_parts_flash(name: str, tmp_path: Path) -> None:
    driver = build(CORES[name], tmp_path / "build")
    for state_bytes in (20, 17_812, 61_000):
        begin, end, erase, program = place(driver, state_bytes)
        assert (end - begin) % (2 * erase) == 0 and end - begin >= 2 * (state_bytes + 44)
        if name == SDK:
            assert (end, erase, program) == (0x101F_F000, 4096, 256)
        else:
            _check(get_board(name), end, erase, program)
    assert place(driver, 5_000_000) == (0, 0, 0, 0)


def test_every_real_board_keeps_its_state_in_flash() -> None:
    real = [board.name for board in load_boards() if not board.platformio.is_local]
    assert set(real) == set(CORES) - {SDK}
    assert all(get_board(name).state is not None for name in real)
