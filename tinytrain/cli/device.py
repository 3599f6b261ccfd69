"""Options that choose a device, and how they become a link to it.

In: command-line values. Out: an open `Link`, data in the device's quantization. Must not know what
is done with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tinytrain.boards import Board, get_board
from tinytrain.cli.options import Command, Decorator
from tinytrain.cli.output import activity
from tinytrain.errors import InputError, UsageError
from tinytrain.ir import Tensor
from tinytrain.numeric.quantize import Quant
from tinytrain.reader.dataset import Dataset, read_dataset
from tinytrain.toolchain.generated import MANIFEST, load_generated
from tinytrain.toolchain.link import Hello, Link
from tinytrain.toolchain.link_exchange import Transport
from tinytrain.toolchain.link_simulator import SimulatedDevice
from tinytrain.toolchain.link_transport import EmulatedDevice, SerialLine
from tinytrain.toolchain.platformio import build_project

_STAGE = "cli"


@dataclass(frozen=True)
class Choice:
    """Which device: a port, or the emulator or simulator of a project."""

    project: Path | None
    port: str | None
    emulator: bool
    simulator: bool
    board: str | None


_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--project",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Generated project; with --port, the device must run its program.",
    ),
    click.option("--port", metavar="PORT", help="Serial port, or socket://host:port."),
    click.option("--emulator", is_flag=True, help="Build the project, run it in QEMU."),
    click.option("--simulator", is_flag=True, help="Run the project's C in this process."),
    click.option(
        "--board",
        metavar="NAME",
        help="Of the project's boards; with --emulator, the first emulated one unless given.",
    ),
)


def device_options(command: Command) -> Command:
    """Options that choose a device, handed over as `device`."""

    @wraps(command)
    def wrapped(
        *, project: Path | None, port: str | None, emulator: bool, simulator: bool,
        board: str | None, **given: Any,
    ) -> None:  # fmt: skip
        if [port is not None, emulator, simulator].count(True) != 1:
            raise click.UsageError("choose one of --port, --emulator and --simulator")
        if project is None and port is None:
            raise click.UsageError("--emulator and --simulator need --project DIR")
        if board is not None and not emulator:
            raise click.UsageError("--board chooses a board for --emulator, and nothing else")
        command(device=Choice(project, port, emulator, simulator, board), **given)

    chosen: Command = wrapped
    for option in reversed(_OPTIONS):
        chosen = option(chosen)
    return chosen


@contextmanager
def connect(device: Choice) -> Iterator[Link]:
    """Open a link; it is closed at the end, and an emulator with it.

    Raises:
        InputError: the device runs another program than the project's.
        ToolError: it cannot be reached.
    """
    with Link(_transport(device)) as link:
        if device.project is not None:
            wanted = load_generated(device.project)
            if wanted.fingerprint != link.hello.fingerprint:
                raise InputError(
                    "other-program",
                    _STAGE,
                    f"the device runs {link.hello.name} {link.hello.fingerprint:08x}, the project "
                    f"is {wanted.name} {wanted.fingerprint:08x}",
                    where=str(device.project),
                    hint="tinytrain flash puts the project's firmware on the device",
                )
        yield link


def project_board(project: Path, name: str | None, *, emulated: bool = False) -> Board:
    """A board of a project: the one called `name`, else the first (that is emulated).

    Raises:
        InputError: not a generated project. UsageError: it has no such board.
    """
    names = json.loads(load_generated(project).files[MANIFEST]).get("boards", [])
    boards = [get_board(found) for found in names]
    fitting = [
        board
        for board in boards
        if (name is None or board.name == name) and (board.emulator is not None or not emulated)
    ]
    if not fitting:
        what = "board that is emulated" if emulated else "board"
        raise UsageError(
            "no-board",
            _STAGE,
            f"the project has no {what}" + (f" called {name}" if name else ""),
            where=str(project),
            hint=f"its boards: {', '.join(names) or 'none'}",
        )
    return fitting[0]


def device_data(path: Path, hello: Hello, project: Path | None = None) -> Dataset:
    """Read a data file in the quantization that a device asks for.

    Args:
        project: the device's, which knows the shape of a sample; the device knows its size only.

    Raises:
        InputError: it does not fit the device's model.
    """
    shape: tuple[int, ...] = (1, hello.input_bytes)
    if project is not None:
        shape = load_generated(project).input_shape
    quant = Quant((hello.input_scale,), hello.input_zero_point)
    x = Tensor("input", shape, "int8", quant=quant)
    if hello.target != "values":
        return read_dataset(path, x, output=None, classes=hello.classes or hello.output_count)
    quant = Quant((hello.output_scale,), hello.output_zero_point)
    y = Tensor("output", (1, hello.output_count), "int8", quant=quant)
    return read_dataset(path, x, output=y, classes=0)


def _transport(device: Choice) -> Transport:
    if device.port is not None:
        return SerialLine(device.port)
    assert device.project is not None
    if device.simulator:
        return SimulatedDevice(device.project)
    board = project_board(device.project, device.board, emulated=True)
    with activity(f"building for {board.name}") as on_line:
        firmware = build_project(device.project, board.name, on_line=on_line)
    flash = device.project.resolve() / ".pio" / f"{board.name}.flash"
    return EmulatedDevice(firmware.elf, board, flash)
