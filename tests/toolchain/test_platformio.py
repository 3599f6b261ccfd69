"""Building projects with the real PlatformIO, without its registry."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tinytrain.boards import get_board, load_boards
from tinytrain.errors import InputError, ToolError
from tinytrain.toolchain import platformio
from tinytrain.toolchain.platformio import build_environment, build_project, prepare_core_dir
from tinytrain.toolchain.qemu import run_firmware

from .conftest import HERE, BuildProbe, MakeProject, write_project

# Boards whose platform comes with the project; the others' are in PlatformIO's registry.
LOCAL = [board.name for board in load_boards() if board.platformio.is_local]

BOARD = "mps2-an386"
PROBE = (HERE / "probe.c").read_text()
BIG_RAM = """
#include "tt_port.h"
static volatile char big[300 * 1024];
int main(void);
int main(void) { big[1000] = 1; return big[2000]; }
"""
BIG_FLASH = """
#include "tt_port.h"
extern volatile int at;
volatile int at = 1000;
static const char big[2 * 1024 * 1024] = {1, 2, 3};
int main(void);
int main(void) { return big[at]; }
"""

arm = pytest.mark.arm
qemu = pytest.mark.qemu


@arm
@pytest.mark.parametrize("name", LOCAL)
def test_sizes_are_those_of_the_map(build_probe: BuildProbe, name: str) -> None:
    firmware = build_probe(name)
    assert firmware.size.stack_bytes == 8192
    assert 1000 < firmware.size.text_bytes < 16_000  # no printf, no heap
    assert firmware.size.ram_bytes < get_board(name).ram.bytes
    assert firmware.size.data_bytes > 0
    assert firmware.size.bss_bytes >= 1000
    assert f"used {firmware.size.ram_bytes} bytes" in firmware.log
    assert f"used {firmware.size.flash_bytes} bytes" in firmware.log
    assert "tt_port_reset" in firmware.map.read_text()


@arm
def test_all_boards_in_one_project(make_project: MakeProject) -> None:
    project = make_project(LOCAL, PROBE)
    lines: list[str] = []
    for name in LOCAL:
        build_project(project, name, on_line=lines.append)
    assert sum("[SUCCESS]" in line for line in lines) == len(LOCAL)
    assert "warning" not in "\n".join(lines).lower()


@arm
@pytest.mark.parametrize(
    ("core", "fpu", "features"),
    [
        ("cortex-m0plus", "none", ()),
        ("cortex-m4", "none", ("dsp",)),
        ("cortex-m7", "sp", ("dsp",)),
        ("cortex-m33", "sp", ("dsp",)),
        ("cortex-m33", "none", ()),
        ("cortex-m55", "dp", ("dsp", "mve")),
    ],
)
def test_port_builds_for_other_cores(
    tmp_path: Path, core: str, fpu: str, features: tuple[str, ...]
) -> None:
    board = dataclasses.replace(get_board(BOARD), core=core, fpu=fpu, features=features)
    project = write_project(tmp_path / "project", [board], PROBE)
    assert build_project(project, board.name).size.text_bytes > 1000


@arm
@pytest.mark.parametrize(("main", "memory"), [(BIG_RAM, "RAM"), (BIG_FLASH, "FLASH")])
def test_firmware_larger_than_the_board(make_project: MakeProject, main: str, memory: str) -> None:
    with pytest.raises(InputError, match=rf"[\d,]+ bytes more {memory}") as caught:
        build_project(make_project([BOARD], main), BOARD)
    assert caught.value.code == "board-memory-exceeded"
    assert caught.value.exit_code == 1


@arm
def test_application_without_the_port(make_project: MakeProject) -> None:
    """It would link to an image without a vector table."""
    with pytest.raises(ToolError) as caught:
        build_project(make_project([BOARD], "int main(void);\nint main(void) { return 0; }"), BOARD)
    assert "must include tt_port.h" in caught.value.hint


@arm
def test_a_larger_stack_by_one_option(make_project: MakeProject) -> None:
    ini = "build_flags = -Wl,--defsym=tt_link_stack_bytes=20480\n"
    firmware = build_project(make_project([BOARD], PROBE, ini=ini), BOARD)
    assert firmware.size.stack_bytes == 20480


@arm
def test_optimization_by_one_option(make_project: MakeProject) -> None:
    small = build_project(
        make_project([BOARD], PROBE, ini="board_build.optimization = -Os\n"), BOARD
    )
    fast = build_project(make_project([BOARD], PROBE, name="fast"), BOARD)
    assert small.size.text_bytes < fast.size.text_bytes


@arm
def test_compiler_message_is_in_the_error(make_project: MakeProject) -> None:
    with pytest.raises(ToolError) as caught:
        build_project(make_project([BOARD], "int main(void) { return undeclared; }"), BOARD)
    assert caught.value.code == "build-failed"
    assert "'undeclared' undeclared" in caught.value.hint


@arm
def test_unknown_environment(make_project: MakeProject) -> None:
    with pytest.raises(ToolError) as caught:
        build_project(make_project([BOARD], PROBE), "mps2-an000")
    assert "mps2-an000" in caught.value.hint


@arm
@qemu
def test_projects_keep_their_own_platform(make_project: MakeProject) -> None:
    """Equal relative platform paths in one core folder must not be taken for one platform."""
    board = get_board(BOARD)
    said = []
    for number in (1, 2):
        project = make_project([BOARD], PROBE, name=f"project{number}")
        script = project / "platform" / "tinytrain-cortexm" / "builder" / "main.py"
        script.write_text(
            script.read_text().replace(
                "env.Append(", f'env.Append(CPPDEFINES=["PROBE_PLATFORM={number}"])\nenv.Append(', 1
            )
        )
        said.append(run_firmware(build_project(project, BOARD).elf, board).stdout.split(",")[0])
    assert said == ["platform 1", "platform 2"]


@arm
def test_a_moved_project_gives_the_same_firmware(make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project([BOARD], PROBE)
    before = build_project(project, BOARD).elf.read_bytes()
    moved = project.rename(tmp_path / "moved")
    shutil.rmtree(moved / ".pio" / "build")
    assert build_project(moved, BOARD).elf.read_bytes() == before


@arm
def test_project_holds_no_absolute_path(make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project([BOARD], PROBE)
    for path in project.rglob("*"):
        if path.is_file():
            assert str(tmp_path) not in path.read_text()


@arm
@qemu
def test_upload_starts_the_emulator(make_project: MakeProject) -> None:
    command = [*platformio.find_platformio(), "run", "-t", "upload"]
    done = subprocess.run(
        [*command, "-d", str(make_project([BOARD], PROBE))],
        env=build_environment(prepare_core_dir()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "platform 0, data 42" in done.stdout


def test_upload_hands_the_port_to_platformio(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], *_: object) -> tuple[int, str]:
        commands.append(command)
        return len(commands) - 1, "no device found\n"

    monkeypatch.setattr(platformio, "_run", run)
    platformio.upload_project(tmp_path, "pico", port="/dev/ttyACM0")
    tail = ["-e", "pico", "-t", "upload", "--upload-port", "/dev/ttyACM0"]
    assert commands[0][-6:] == tail
    with pytest.raises(ToolError) as caught:
        platformio.upload_project(tmp_path, "pico")
    assert commands[1][-2:] == ["-t", "upload"] and "no device found" in caught.value.hint


def place(core_dir: Path, version: str) -> Path:
    folder = core_dir / "packages" / "tool-scons"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"name": "tool-scons", "version": version}))
    return core_dir


def test_core_dir_of_our_own(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(user))
    core_dir = prepare_core_dir()
    assert core_dir == own_cache / "platformio"
    assert not user.exists()
    package = core_dir / "packages" / "tool-scons"
    assert sorted(os.listdir(package)) == [".piopm", "package.json", "scons.py"]
    assert sorted(os.listdir(package.parent)) == ["tool-scons"]


def test_users_core_dir_where_it_has_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = place(tmp_path / "user", "4.41101.3")
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(user))
    monkeypatch.setattr(platformio, "required_scons", lambda: "4.11.1")
    assert prepare_core_dir() == user


def test_users_core_dir_where_scons_cannot_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = place(tmp_path / "user", "4.40700.0")
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(user))
    monkeypatch.setattr(platformio, "required_scons", lambda: "4.11.1")
    monkeypatch.setattr(platformio, "installed_scons", lambda: "4.9.0")
    assert prepare_core_dir() == user


def test_outdated_package_of_ours_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(tmp_path / "user"))
    place(tmp_path / "cache" / "platformio", "4.40700.0")
    package = prepare_core_dir() / "packages" / "tool-scons"
    version = json.loads((package / "package.json").read_text())["version"]
    assert version != "4.40700.0"
    assert (package / ".piopm").is_file()


def test_unwritable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(tmp_path / "user"))
    with pytest.raises(ToolError, match="TINYTRAIN_CACHE"):
        prepare_core_dir()


def test_missing_platformio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="pip install platformio") as caught:
        build_project(tmp_path, BOARD)
    assert caught.value.exit_code == 3
