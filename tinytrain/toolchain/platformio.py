"""Drive PlatformIO: find it, give it a core folder that works, build a project.

In: a project folder and the name of one of its environments. Out: the firmware's path and sizes.
Works with PlatformIO's registry and without: where its build tool (SCons, as the package
`tool-scons`) is not installed, the `scons` of this Python stands in for it, in a core folder of
our own. The user's core folder is never changed by us.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinytrain.errors import InputError, TinytrainError, ToolError
from tinytrain.toolchain.cache import cache_dir
from tinytrain.toolchain.elf import FirmwareSize, read_firmware_size

_STAGE = "toolchain"
_TAIL_LINES = 20
_OVERFLOW = re.compile(r"region `(\w+)' overflowed by (\d+) bytes")
_INSTALL = "pip install platformio"


@dataclass(frozen=True)
class Firmware:
    """A built firmware: the linked program, the linker's map, its sizes, and the build's log."""

    elf: Path
    map: Path
    size: FirmwareSize
    log: str


def find_platformio() -> tuple[str, ...]:
    """Return the command that starts PlatformIO: of this Python if it has it, else of PATH.

    Raises:
        ToolError: there is none.
    """
    if importlib.util.find_spec("platformio") is not None:
        return (sys.executable, "-m", "platformio")
    path = shutil.which("pio") or shutil.which("platformio")
    if path is None:
        raise ToolError("missing-platformio", _STAGE, "PlatformIO is not installed", hint=_INSTALL)
    return (path,)


def required_scons() -> str | None:
    """Return the SCons version (``"4.11.1"``) that this Python's PlatformIO builds with.

    None where PlatformIO is not in this Python. PlatformIO writes it as ``~4.41101.0``.
    """
    if importlib.util.find_spec("platformio") is None:
        return None
    dependencies = importlib.import_module("platformio.dependencies").get_core_dependencies()
    match = re.fullmatch(r"~4\.(\d)(\d\d)(\d\d)\.0", str(dependencies.get("tool-scons", "")))
    return ".".join(str(int(part)) for part in match.groups()) if match else None


def installed_scons() -> str | None:
    """Return the version of the `scons` package in this Python, or None."""
    try:
        return importlib.metadata.version("scons")
    except importlib.metadata.PackageNotFoundError:
        return None


def user_core_dir() -> Path:
    """Return PlatformIO's core folder as the user has it; it may not exist."""
    chosen = os.environ.get("PLATFORMIO_CORE_DIR")
    return Path(chosen).expanduser() if chosen else Path.home() / ".platformio"


def has_registry_scons(core_dir: Path) -> bool:
    """Whether PlatformIO's own build tool, in the version it needs, is installed in `core_dir`."""
    required = required_scons()
    for manifest in sorted(core_dir.glob("packages/tool-scons*/package.json")):
        try:
            version = json.loads(manifest.read_text(encoding="utf-8")).get("version", "")
        except (OSError, ValueError, AttributeError):
            continue
        # PlatformIO takes any last number ("~4.41101.0").
        if required is None or str(version).startswith(_package_version(required)[:-1]):
            return True
    return False


def prepare_core_dir() -> Path:
    """Return a core folder with which a build can start.

    The user's, if PlatformIO's build tool is there or `scons` cannot stand in for it (PlatformIO
    then fetches the tool itself); else one of ours in the cache, with `scons` put in place.

    Raises:
        ToolError: our core folder cannot be written.
    """
    user = user_core_dir()
    required = required_scons()
    if has_registry_scons(user) or required is None or installed_scons() != required:
        return user
    core_dir = cache_dir() / "platformio"
    try:
        _place_scons(core_dir, required)
    except OSError as error:
        raise ToolError(
            "core-dir",
            _STAGE,
            f"cannot prepare PlatformIO's core folder: {error}",
            where=str(core_dir),
            hint="set TINYTRAIN_CACHE to a folder that can be written",
        ) from error
    return core_dir


def build_environment(core_dir: Path) -> dict[str, str]:
    """Return the environment variables of a PlatformIO process that uses `core_dir`."""
    environment = dict(os.environ)
    # The result is looked for in the project's own folder.
    for name in ("PLATFORMIO_WORKSPACE_DIR", "PLATFORMIO_BUILD_DIR"):
        environment.pop(name, None)
    environment["PLATFORMIO_CORE_DIR"] = str(core_dir)
    # A build asks the network for nothing but packages that are missing.
    environment["PLATFORMIO_SETTING_ENABLE_TELEMETRY"] = "no"
    environment["PLATFORMIO_DISABLE_UPGRADE_CHECK"] = "true"
    environment["PLATFORMIO_NO_ANSI"] = "true"
    return environment


def build_project(
    project_dir: Path,
    environment: str,
    *,
    on_line: Callable[[str], None] | None = None,
    flags: Sequence[str] = (),
) -> Firmware:
    """Run ``pio run`` for one environment of a project.

    Args:
        environment: name of an ``[env:...]`` section of the project's platformio.ini.
        on_line: called with each line of the build's output as it comes.
        flags: further compiler flags, for all sources.

    Raises:
        InputError: the firmware is larger than the board's flash or RAM.
        ToolError: PlatformIO is missing, or the build failed.
    """
    return build_projects(project_dir, [environment], on_line=on_line, flags=flags)[environment]


def build_projects(
    project_dir: Path,
    environments: Sequence[str],
    *,
    on_line: Callable[[str], None] | None = None,
    flags: Sequence[str] = (),
) -> dict[str, Firmware]:
    """The same for several environments in one go; environment -> firmware."""
    chosen = [word for name in environments for word in ("-e", name)]
    command = [*find_platformio(), "run", "-d", str(project_dir), *chosen]
    variables = build_environment(prepare_core_dir())
    if flags:
        variables["PLATFORMIO_BUILD_FLAGS"] = " ".join(flags)
    exit_code, log = _run(command, variables, on_line)
    built = {}
    for name in environments:
        folder = project_dir / ".pio" / "build" / name
        elf = folder / "firmware.elf"
        if exit_code != 0 or not elf.is_file():
            raise _build_error(", ".join(environments), log)
        built[name] = Firmware(elf, folder / "firmware.map", read_firmware_size(elf), log)
    return built


def upload_project(
    project_dir: Path,
    environment: str,
    *,
    port: str | None = None,
    on_line: Callable[[str], None] | None = None,
) -> str:
    """Build and run ``pio run -t upload``; returns the log.

    Args:
        port: serial port of the board; PlatformIO looks for one unless given.

    Raises:
        InputError, ToolError: as `build_project`.
    """
    command = [*find_platformio(), "run", "-d", str(project_dir), "-e", environment]
    command += ["-t", "upload", *(("--upload-port", port) if port else ())]
    exit_code, log = _run(command, build_environment(prepare_core_dir()), on_line)
    if exit_code != 0:
        raise _build_error(environment, log)
    return log


def _run(
    command: list[str], variables: Mapping[str, str], on_line: Callable[[str], None] | None
) -> tuple[int, str]:
    lines: list[str] = []
    try:
        with subprocess.Popen(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if on_line is not None:
                    on_line(line.rstrip("\n"))
    except OSError as error:
        raise ToolError(
            "platformio-failed", _STAGE, f"cannot start PlatformIO: {error}", hint=_INSTALL
        ) from error
    return process.returncode, "".join(lines)


def _build_error(environment: str, log: str) -> TinytrainError:
    overflows = dict(_OVERFLOW.findall(log))
    if overflows:
        excess = " and ".join(f"{int(n):,} bytes more {name}" for name, n in overflows.items())
        return InputError(
            "board-memory-exceeded",
            _STAGE,
            f"the firmware needs {excess} than the board has",
            where=environment,
            hint="train fewer layers, choose a smaller model, or a larger board",
        )
    tail = "\n".join(log.rstrip().splitlines()[-_TAIL_LINES:])
    if "HTTPClientError" in log:
        return ToolError(
            "registry-unreachable",
            _STAGE,
            "PlatformIO lacks a package and cannot reach its registry",
            where=environment,
            hint="`tinytrain doctor` says which tools replace the packages; last lines:\n" + tail,
        )
    return ToolError(
        "build-failed",
        _STAGE,
        "PlatformIO could not build the firmware",
        where=environment,
        hint="last lines of the build:\n" + tail,
    )


def _package_version(scons: str) -> str:
    """Return PlatformIO's spelling of an SCons version: 4.11.1 is 4.41101.0."""
    major, minor, patch = (int(part) for part in scons.split("."))
    return f"4.{major}{minor:02d}{patch:02d}.0"


def _place_scons(core_dir: Path, scons: str) -> None:
    """Put the package `tool-scons` into our core folder, unless it is there already.

    Written beside it and renamed, for builds may start at the same time.
    """
    target = core_dir / "packages" / "tool-scons"
    files = _scons_package(_package_version(scons))
    if _holds(target, files):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=core_dir) as staging:
        fresh = Path(staging) / "tool-scons"
        fresh.mkdir()
        for name, text in files.items():
            (fresh / name).write_text(text, encoding="utf-8")
        if target.exists():
            target.rename(Path(staging) / "outdated")
        try:
            fresh.rename(target)
        except OSError:
            if not _holds(target, files):  # unless another build was faster
                raise


def _holds(folder: Path, files: Mapping[str, str]) -> bool:
    try:
        return all((folder / name).read_text("utf-8") == text for name, text in files.items())
    except OSError:
        return False


def _scons_package(version: str) -> dict[str, str]:
    """Return the files that make PlatformIO take this Python's `scons` for its own package."""
    manifest = {
        "name": "tool-scons",
        "version": version,
        "description": "SCons of the Python that runs PlatformIO",
        "system": "*",
    }
    spec = {"owner": "platformio", "id": None, "name": "tool-scons"}
    receipt = {
        "type": "tool",
        "name": "tool-scons",
        "version": version,
        "spec": {**spec, "requirements": None, "uri": None},
    }
    return {
        "package.json": json.dumps(manifest, indent=2) + "\n",
        ".piopm": json.dumps(receipt) + "\n",
        "scons.py": "import SCons.Script\n\nSCons.Script.main()\n",
    }
