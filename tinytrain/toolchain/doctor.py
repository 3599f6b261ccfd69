"""Which tools are here, which are missing, what each is for, and how to get it.

In: the machine. Out: data; printing is for others.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tinytrain.errors import ToolError
from tinytrain.toolchain import host, platformio, qemu


@dataclass(frozen=True)
class Tool:
    """One tool: `why` says what needs it, `how` says how to get it ("" where it is found)."""

    name: str
    found: bool
    version: str
    path: str
    why: str
    how: str


def diagnose() -> tuple[Tool, ...]:
    """Look for every tool that some command needs. Starts a few short processes."""
    return (_python(), _compiler(), _platformio(), _scons(), _arm_gcc(), _newlib(), _qemu())


def _tool(name: str, version: str | None, path: str, why: str, how: str) -> Tool:
    found = version is not None
    return Tool(name, found, version or "", path if found else "", why, "" if found else how)


def _python() -> Tool:
    return _tool("Python", platform.python_version(), sys.executable, "everything", "")


def _compiler() -> Tool:
    why = "the simulator: generated C on this machine"
    try:
        compiler = host.find_host_compiler()
    except ToolError as error:
        return _tool("C compiler", None, "", why, error.hint)
    path = shutil.which(compiler.command[0]) or compiler.command[0]
    return _tool("C compiler", compiler.version, path, why, "")


def _platformio() -> Tool:
    why = "building firmware"
    try:
        command = platformio.find_platformio()
    except ToolError as error:
        return _tool("PlatformIO", None, "", why, error.hint)
    if len(command) > 1:
        version: str | None = importlib.metadata.version("platformio")
    else:
        version = _first_line([*command, "--version"])
    return _tool("PlatformIO", version, command[0], why, "pip install platformio")


def _scons() -> Tool:
    why = "building firmware: what PlatformIO builds with"
    core_dir = platformio.user_core_dir()
    required = platformio.required_scons()
    if platformio.has_registry_scons(core_dir):
        return _tool("SCons", required or "of PlatformIO", str(core_dir), why, "")
    installed = platformio.installed_scons()
    if required is not None and installed == required:
        return _tool("SCons", installed, sys.executable, why, "")
    package = f"scons=={required}" if required else "scons"
    how = f"pip install {package}; or nothing, where PlatformIO's registry can be reached"
    return _tool("SCons", None, "", why, how)


def _arm_gcc() -> Tool:
    path = shutil.which("arm-none-eabi-gcc")
    version = _first_line([path, "-dumpfullversion"]) if path else None
    how = (
        "apt install gcc-arm-none-eabi libnewlib-arm-none-eabi; "
        "or nothing, where PlatformIO's registry can be reached"
    )
    return _tool("arm-none-eabi-gcc", version, path or "", "building firmware", how)


def _newlib() -> Tool:
    """The C library is a package of its own in Debian, and easily forgotten."""
    path = shutil.which("arm-none-eabi-gcc")
    specs = _first_line([path, "-print-file-name=nano.specs"]) if path else None
    found = specs is not None and Path(specs).is_absolute()
    how = "apt install libnewlib-arm-none-eabi; PlatformIO's own compiler brings it along"
    why = "building firmware: the C library for the board"
    return _tool("newlib-nano", "found" if found else None, specs or "", why, how)


def _qemu() -> Tool:
    why = "the emulator: firmware without a board"
    try:
        path = qemu.find_qemu()
    except ToolError as error:
        return _tool(qemu.PROGRAM, None, "", why, error.hint)
    line = _first_line([path, "--version"])
    version = line.split("version ", 1)[-1].split()[0] if line else None
    return _tool(qemu.PROGRAM, version, path, why, "reinstall it: it does not start")


def _first_line(command: list[str]) -> str | None:
    """Return the first line a command prints, or None if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None
