"""Boards: one TOML file each becomes a frozen `Board`.

In: the files of `boards/`. Out: `Board` values, and what follows from a board alone: compiler
flags, preprocessor defines, PlatformIO's board manifest. Must not know models, plans or tools.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinytrain.errors import InputError, TinytrainError, UsageError
from tinytrain.resources import data_dir

if sys.version_info >= (3, 11):
    import tomllib
else:  # the same parser, from PyPI
    import tomli as tomllib

LOCAL_PLATFORM = "tinytrain-cortexm"
"""Name of the PlatformIO platform that comes with this project (`firmware/platform`)."""

DEFAULT_STACK_BYTES = 8 * 1024

CORES = (
    "cortex-m0plus",
    "cortex-m3",
    "cortex-m4",
    "cortex-m7",
    "cortex-m33",
    "cortex-m55",
)
FPUS = ("none", "sp", "dp")
FEATURES = ("dsp", "mve")
STATUSES = ("emulated", "built", "described")
UARTS = ("cmsdk", "stm32")
OPTIMIZATIONS = {"speed": "-O3", "size": "-Os"}
"""What a build can be optimized for, and the compiler's flag."""

_STAGE = "boards"
_FPU_UNITS = {
    ("cortex-m4", "sp"): "fpv4-sp-d16",
    ("cortex-m7", "sp"): "fpv5-sp-d16",
    ("cortex-m7", "dp"): "fpv5-d16",
    ("cortex-m33", "sp"): "fpv5-sp-d16",
    ("cortex-m55", "dp"): "auto",
}
# Extensions that the core's name alone implies for the compiler; a board without them says so.
_IMPLIED = {"cortex-m33": ("dsp",), "cortex-m55": ("dsp", "mve")}
_REQUIRED = {"cortex-m4": ("dsp",), "cortex-m7": ("dsp",)}


@dataclass(frozen=True)
class Region:
    """A memory region: the half-open interval [origin, origin + bytes)."""

    origin: int
    bytes: int


@dataclass(frozen=True)
class Emulator:
    """The QEMU machine that stands in for a board.

    Attributes:
        machine: QEMU's ``-M`` name.
        flash_bytes, ram_bytes: sizes of the emulated memories, for information; they are larger
            than the board's and nothing is ever placed in the difference.
        systick_hz: rate of SysTick on the processor clock; the instruction counter needs it.
        uart_base: address of the first serial port.
        uart: its kind, one of `UARTS`.
    """

    machine: str
    flash_bytes: int
    ram_bytes: int
    systick_hz: int
    uart_base: int
    uart: str = "cmsdk"


@dataclass(frozen=True)
class StateFlash:
    """Internal flash that keeps the trained state, and who drives it.

    Attributes:
        driver: the calls of core or vendor that erase and program it.
        erase_bytes: of a block; each of the two slots takes whole blocks, at the end of flash.
        program_bytes: of a unit of programming.
    """

    driver: str
    erase_bytes: int
    program_bytes: int


@dataclass(frozen=True)
class PlatformioNames:
    """What PlatformIO calls the board; `framework` is "" for bare metal.

    `build_flags` are further options of the whole build, as one line.
    """

    platform: str
    board: str
    framework: str = ""
    build_flags: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the platform is the one that generated projects carry with them."""
        return self.platform == LOCAL_PLATFORM


@dataclass(frozen=True)
class Board:
    """A target: the part that decides whether a model fits and how it is compiled.

    Attributes:
        name: file stem of the TOML file.
        core: one of `CORES`.
        fpu: "none", "sp" (single precision) or "dp" (single and double precision).
        features: subset of `FEATURES` (DSP extension; M-profile vector extension).
        flash, ram: the *board's* memories, which the linker script holds.
        emulator: None where no emulated machine exists.
        state: None where no driver for internal flash exists: an emulated board keeps the state in
            a file of the host, another one in RAM only.
        status: "emulated" (built and run in QEMU), "built", or "described" (only this file).
        optimize: one of `OPTIMIZATIONS`; for boards of the local platform.
    """

    name: str
    title: str
    mcu: str
    core: str
    fpu: str
    features: tuple[str, ...]
    clock_hz: int
    flash: Region
    ram: Region
    emulator: Emulator | None
    platformio: PlatformioNames
    status: str
    optimize: str = "speed"
    state: StateFlash | None = None

    @property
    def arch_flags(self) -> tuple[str, ...]:
        """GCC flags that select core, FPU and calling convention; for compiler and linker."""
        missing = [f for f in _IMPLIED.get(self.core, ()) if f not in self.features]
        cpu = self.core + "".join(f"+no{feature}" for feature in missing)
        if self.fpu == "none":
            return ("-mthumb", f"-mcpu={cpu}", "-mfloat-abi=soft")
        unit = _FPU_UNITS[self.core, self.fpu]
        return ("-mthumb", f"-mcpu={cpu}", "-mfloat-abi=hard", f"-mfpu={unit}")

    @property
    def defines(self) -> tuple[str, ...]:
        """Preprocessor defines (``NAME=VALUE``) that `firmware/ports` reads."""
        if self.emulator is None:
            return ()
        kind = ("TT_PORT_UART_STM32=1",) if self.emulator.uart == "stm32" else ()
        return (
            f"TT_PORT_SYSTICK_HZ={self.emulator.systick_hz}u",
            f"TT_PORT_UART_BASE=0x{self.emulator.uart_base:08x}u",
            *kind,
        )


def load_boards(folder: Path | None = None) -> tuple[Board, ...]:
    """Read all boards of `folder` (default: those of the project), sorted by name.

    Raises:
        InputError: a file is not a valid board description.
    """
    files = sorted((folder or data_dir("boards")).glob("*.toml"))
    return tuple(read_board(path) for path in files)


def get_board(name: str, folder: Path | None = None) -> Board:
    """Return the board called `name`.

    Raises:
        UsageError: there is none; the hint lists the names.
        InputError: its file is not a valid board description.
    """
    names = sorted(path.stem for path in (folder or data_dir("boards")).glob("*.toml"))
    if name not in names:
        raise UsageError(
            "unknown-board",
            _STAGE,
            f"no board is called {name!r}",
            hint="boards: " + ", ".join(names),
        )
    return read_board((folder or data_dir("boards")) / f"{name}.toml")


def optimized(board: Board, goal: str) -> Board:
    """The board, whose builds are optimized for "speed" or "size".

    Raises:
        UsageError: the board's own platform has the say, and it is to be "size".
    """
    if goal != "speed" and not board.platformio.is_local:
        raise UsageError(
            "fixed-optimization",
            _STAGE,
            f"the compiler flags of {board.name} are those of its Arduino core",
            hint="leave --optimize out, or choose a board of the local platform",
        )
    return replace(board, optimize=goal)


def read_board(path: Path) -> Board:
    """Read one board file; its stem is the board's name.

    Raises:
        InputError: the file is not TOML, or a key is missing, unknown, or has a wrong value.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _bad(path.name, f"cannot be read as TOML: {error}") from error
    table = _Table(path.name, "", document)
    core = table.choice("core", CORES)
    fpu = table.choice("fpu", FPUS)
    features = table.choices("features", FEATURES)
    board = Board(
        name=path.stem,
        title=table.text("title"),
        mcu=table.text("mcu"),
        core=core,
        fpu=fpu,
        features=features,
        clock_hz=table.positive("clock_hz"),
        flash=_region(table.table("flash")),
        ram=_region(table.table("ram")),
        emulator=_emulator(table.table("emulator")) if "emulator" in document else None,
        platformio=_platformio(table.table("platformio")),
        status=table.choice("status", STATUSES),
        state=_state(table.table("state")) if "state" in document else None,
    )
    table.refuse_unknown()
    _check(path.name, board)
    return board


def platformio_manifest(board: Board) -> str:
    """PlatformIO's board manifest (`boards/<name>.json` of a project) as JSON text.

    Only boards of the local platform need one. The linker script is expected beside it.
    """
    build: dict[str, object] = {
        "mcu": board.mcu,
        "cpu": board.core,
        "f_cpu": f"{board.clock_hz}L",
        "arch_flags": list(board.arch_flags),
        "defines": list(board.defines),
        "optimization": OPTIMIZATIONS[board.optimize],
        "ldscript": f"boards/{board.name}.ld",
    }
    manifest = {
        "name": board.title,
        "vendor": board.title.split()[0],
        "url": "",
        "platform": board.platformio.platform,
        "build": build,
        "upload": {
            "maximum_size": board.flash.bytes,
            "maximum_ram_size": board.ram.bytes,
            "protocol": "custom",
            "protocols": ["custom"],
        },
    }
    return json.dumps(manifest, indent=2) + "\n"


class _Table:
    """A TOML table whose keys are taken out one by one, each checked; the rest is refused."""

    def __init__(self, file: str, prefix: str, values: dict[str, Any]) -> None:
        self._file = file
        self._prefix = prefix
        self._values = dict(values)

    def _take(self, key: str) -> Any:
        if key not in self._values:
            raise _bad(self._file, f"the key {self._prefix}{key} is missing")
        return self._values.pop(key)

    def text(self, key: str, default: str | None = None) -> str:
        if default is not None and key not in self._values:
            return default
        value = self._take(key)
        if not isinstance(value, str) or not value.strip():
            raise _bad(self._file, f"{self._prefix}{key} must be a text")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = self.text(key, default)
        if value not in allowed:
            expected = ", ".join(allowed)
            raise _bad(
                self._file, f"{self._prefix}{key} is {value!r}; it must be one of {expected}"
            )
        return value

    def choices(self, key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
        value = self._take(key)
        if not isinstance(value, list) or any(item not in allowed for item in value):
            expected = ", ".join(allowed)
            raise _bad(self._file, f"{self._prefix}{key} must be a list of {expected}")
        return tuple(item for item in allowed if item in value)

    def number(self, key: str) -> int:
        value = self._take(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
            raise _bad(self._file, f"{self._prefix}{key} must be an integer of 32 bits")
        return value

    def positive(self, key: str) -> int:
        value = self.number(key)
        if value == 0:
            raise _bad(self._file, f"{self._prefix}{key} must be above 0")
        return value

    def table(self, key: str) -> _Table:
        value = self._take(key)
        if not isinstance(value, dict):
            raise _bad(self._file, f"{self._prefix}{key} must be a table")
        return _Table(self._file, f"{self._prefix}{key}.", value)

    def refuse_unknown(self) -> None:
        if self._values:
            names = ", ".join(self._prefix + key for key in self._values)
            raise _bad(self._file, f"unknown: {names}")


def _bad(file: str, message: str) -> TinytrainError:
    return InputError(
        "bad-board",
        _STAGE,
        f"the board file {file} is not valid: {message}",
        where=file,
        hint="compare with boards/mps2-an386.toml",
    )


def _region(table: _Table) -> Region:
    region = Region(origin=table.number("origin"), bytes=table.positive("bytes"))
    table.refuse_unknown()
    return region


def _emulator(table: _Table) -> Emulator:
    emulator = Emulator(
        machine=table.text("machine"),
        flash_bytes=table.positive("flash_bytes"),
        ram_bytes=table.positive("ram_bytes"),
        systick_hz=table.positive("systick_hz"),
        uart_base=table.positive("uart_base"),
        uart=table.choice("uart", UARTS, default="cmsdk"),
    )
    table.refuse_unknown()
    return emulator


def _state(table: _Table) -> StateFlash:
    state = StateFlash(
        driver=table.text("driver"),
        erase_bytes=table.positive("erase_bytes"),
        program_bytes=table.positive("program_bytes"),
    )
    table.refuse_unknown()
    return state


def _platformio(table: _Table) -> PlatformioNames:
    names = PlatformioNames(
        platform=table.text("platform"),
        board=table.text("board"),
        framework=table.text("framework", default=""),
        build_flags=table.text("build_flags", default=""),
    )
    table.refuse_unknown()
    return names


def _check(file: str, board: Board) -> None:
    """Refuse combinations that no part has, and regions that cannot be."""
    if board.fpu != "none" and (board.core, board.fpu) not in _FPU_UNITS:
        raise _bad(file, f"a {board.core} has no {board.fpu!r} FPU")
    lacking = [f for f in _REQUIRED.get(board.core, ()) if f not in board.features]
    if lacking:
        raise _bad(file, f"every {board.core} has {', '.join(lacking)}; name it in features")
    possible = _REQUIRED.get(board.core, ()) + _IMPLIED.get(board.core, ())
    excess = [f for f in board.features if f not in possible]
    if excess:
        raise _bad(file, f"a {board.core} has no {', '.join(excess)}")
    if "mve" in board.features and board.fpu == "none":
        raise _bad(file, "mve needs an FPU")
    for name, region in (("flash", board.flash), ("ram", board.ram)):
        if region.origin % 8 or region.bytes % 8:
            raise _bad(file, f"{name} must begin and end at multiples of 8 bytes")
        if region.origin + region.bytes > 1 << 32:
            raise _bad(file, f"{name} ends beyond 32 bits of address")
    if board.flash.origin < board.ram.origin + board.ram.bytes and (
        board.ram.origin < board.flash.origin + board.flash.bytes
    ):
        raise _bad(file, "flash and ram overlap")
    if board.emulator is not None and (
        board.emulator.ram_bytes < board.ram.bytes or board.emulator.flash_bytes < board.flash.bytes
    ):
        raise _bad(file, "the emulated memories must not be smaller than the board's")
    if board.status == "emulated" and board.emulator is None:
        raise _bad(file, 'the status "emulated" needs an [emulator] table')
