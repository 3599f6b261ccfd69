"""Lines to devices outside of this process: a serial port, and QEMU's.

In: a port's name, or a firmware and its board. Out: transports. Must not know what the bytes mean.
"""

from __future__ import annotations

import select
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import serial
from serial.tools import list_ports

from tinytrain.boards import Board
from tinytrain.errors import ToolError
from tinytrain.toolchain.qemu import qemu_command

BAUD = 115_200
_STAGE = "link"
_PIECE = 4096
_END_S = 5.0


class SerialLine:
    """A serial port, or what pyserial takes for one (``socket://host:port``).

    Raises:
        ToolError: it cannot be opened.
    """

    def __init__(self, port: str, baud: int = BAUD) -> None:
        self.name = port
        try:
            self._port: Any = serial.serial_for_url(port, baudrate=baud, timeout=0)
        except (serial.SerialException, ValueError, OSError) as error:
            raise _failed(port, f"cannot be opened: {error}") from error

    def send(self, data: bytes) -> None:
        """Send bytes."""
        try:
            self._port.write(data)
        except (serial.SerialException, OSError) as error:
            raise _failed(self.name, f"is gone: {error}") from error

    def receive(self, timeout_s: float) -> bytes:
        """Bytes that have arrived; b"" if none came in time."""
        try:
            self._port.timeout = timeout_s
            first = bytes(self._port.read(1))
            if not first:
                return b""
            self._port.timeout = 0
            return first + bytes(self._port.read(_PIECE))
        except (serial.SerialException, OSError) as error:
            raise _failed(self.name, f"is gone: {error}") from error

    def close(self) -> None:
        """Let go of the port."""
        self._port.close()


class EmulatedDevice:
    """A firmware in QEMU, its serial port a socket of this process.

    Args:
        elf: the linked firmware.
        flash: the file that stands for the device's flash; it outlives the emulator.
        exact: whether to count instructions, which makes equal runs equal and slower.

    Raises:
        UsageError: the board has no emulated machine.
        ToolError: QEMU is not installed, or does not start.
    """

    def __init__(
        self, elf: Path, board: Board, flash: Path | None = None, *, exact: bool = False
    ) -> None:
        self.name = f"QEMU ({board.name})"
        arguments = [flash.name] if flash is not None else []
        command = _with_serial(qemu_command(elf, board, arguments), exact=exact)
        self._socket, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            command += ["-chardev", f"socket,id=line,fd={number}", "-serial", "chardev:line"]
            try:
                self._process = subprocess.Popen(
                    command,
                    cwd=flash.parent if flash is not None else None,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=(number,),
                )
            except OSError as error:
                self._socket.close()
                message = f"cannot start QEMU: {error}"
                raise ToolError("emulator-failed", _STAGE, message) from error
        self._socket.setblocking(False)

    def send(self, data: bytes) -> None:
        """Send bytes; waits while the device does not take them."""
        at = 0
        while at < len(data):
            try:
                at += self._socket.send(data[at:])
            except BlockingIOError:
                select.select([], [self._socket], [], 1.0)
                self._check_alive()
            except OSError as error:
                raise self._ended() from error

    def receive(self, timeout_s: float) -> bytes:
        """Bytes that have arrived; b"" if none came in time."""
        readable, _, _ = select.select([self._socket], [], [], timeout_s)
        if not readable:
            self._check_alive()
            return b""
        try:
            data = self._socket.recv(_PIECE)
        except OSError as error:
            raise self._ended() from error
        if not data:
            raise self._ended()
        return data

    def close(self) -> None:
        """Cut the power."""
        self._socket.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(_END_S)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _check_alive(self) -> None:
        if self._process.poll() is not None:
            raise self._ended()

    def _ended(self) -> ToolError:
        deadline = time.monotonic() + _END_S
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        stdout = self._process.stdout
        done = self._process.poll() is not None
        text = stdout.read().decode("utf-8", "replace") if stdout is not None and done else ""
        return ToolError(
            "emulator-ended",
            _STAGE,
            f"the emulator ended with code {self._process.poll()}",
            where=self.name,
            hint=f"it said: {text.strip()}" if text.strip() else "it said nothing",
        )


def ports() -> Sequence[str]:
    """Names of the serial ports of this machine."""
    return [port.device for port in list_ports.comports()]


def _with_serial(command: list[str], *, exact: bool) -> list[str]:
    """The command without its ``-serial none``, and without instruction counting if unwanted."""
    kept = list(command)
    at = kept.index("-serial")
    del kept[at : at + 2]
    if not exact:
        at = kept.index("-icount")
        del kept[at : at + 2]
    return kept


def _failed(port: str, message: str) -> ToolError:
    found = ", ".join(ports()) or "none"
    return ToolError(
        "port-failed",
        _STAGE,
        f"the port {message}",
        where=port,
        hint=f"serial ports found here: {found}",
    )
