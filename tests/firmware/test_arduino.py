"""Generated projects for Arduino boards, against a stand-in header: no Arduino core is here.

What is seen: the compiler takes application, port, libraries and sketch for each kind of core, and
the linker finds every symbol but the core's own. Nothing of this has run.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from codegen import generate, write_project
from tests.codegen.models import tiny_plan
from tests.firmware.test_flash import CORES, SDK
from tinytrain.boards import Board, get_board, load_boards
from tinytrain.toolchain.host import NUMERIC_FLAGS, STRICT_FLAGS
from tinytrain.toolchain.platformio import build_environment, find_platformio, prepare_core_dir
from tinytrain.train import TrainOptions

HERE = Path(__file__).resolve().parent
ARDUINO = tuple(board for board in load_boards() if board.platformio.framework == "arduino")
KINDS = ("pico", "nucleo-f411re", "disco-f746ng", "nucleo-h743zi")  # M0+, M4F, M7 of both FPUs
CORE = {"Serial", "micros"} | {
    f"_ZN6Stream{name}" for name in ("5beginEm", "9availableEv", "4readEv", "5writeEPKhj")
}
CXX_FLAGS = (
    "-std=gnu++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
    "-Wall", "-Wextra", "-Werror",
)  # fmt: skip
DEFINES = ("-DARDUINO=10819", "-DF_CPU=64000000L", "-DTT_BOARD_RAM_STORAGE_BYTES=4096")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arduino")
    write_project(generate(tiny_plan(folder), boards=ARDUINO), folder / "project")
    return folder / "project"


def compile_all(project: Path, board: Board, into: Path, *defines: str) -> Path:
    """Compile everything but job.c, link it to one object; returns that."""
    sources = sorted(project.glob("lib/*/src/*.c")) + [project / "src" / "main.c"]
    includes = [path.parent for path in project.glob("lib/*/src/tt_*.h")]
    includes += [*project.glob("lib/*/src"), project / "lib" / "tt_board_arduino", HERE / "arduino"]
    folders = [f"-I{folder}" for folder in dict.fromkeys(includes)]
    common = [*board.arch_flags, *defines, *folders, "-c", "-Os"]
    into.mkdir()
    c_flags = [*NUMERIC_FLAGS, *STRICT_FLAGS]
    port = sorted((project / "lib" / "tt_board_arduino").glob("*.cpp"))
    for command in (
        ["arm-none-eabi-gcc", *c_flags, *common, *map(str, sources)],
        ["arm-none-eabi-g++", *CXX_FLAGS, *common, *map(str, port)],
    ):
        done = subprocess.run(command, cwd=into, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    objects = [str(path) for path in into.glob("*.o")]
    linked = into / "all.o"
    command = ["arm-none-eabi-gcc", *board.arch_flags, "-nostdlib", "-r", "-o", str(linked)]
    subprocess.run([*command, *objects], check=True)
    return linked


@pytest.mark.arm
@pytest.mark.parametrize(
    ("name", "storage"), [*((name, ()) for name in KINDS), ("nucleo-f411re", DEFINES[2:])]
)
def test_compiles_for_each_kind_of_core(
    project: Path, tmp_path: Path, name: str, storage: tuple[str, ...]
) -> None:
    linked = compile_all(project, get_board(name), tmp_path / "out", *DEFINES[:2], *storage)
    done = subprocess.run(
        ["arm-none-eabi-nm", str(linked)], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    missing = {row[1] for row in rows if len(row) == 2 and row[0] == "U"}
    library = re.compile(r"__(aeabi_|gnu_|clz|pop)|mem(cpy|set|move)$|(round|floor|ceil|sqrt)f$")
    assert {symbol for symbol in missing if not library.match(symbol)} <= CORE
    defined = {row[2] for row in rows if len(row) == 3 and row[1] in "TW"}
    assert defined >= {"setup", "loop", "tt_app_start", "tt_app_turn", "tt_board_flash"}
    if name == "pico":
        assert "micros" in missing  # an M0+ has no cycle counter


@pytest.mark.arm
@pytest.mark.parametrize("name", CORES)
def test_compiles_the_flash_driver_of_each_core(project: Path, tmp_path: Path, name: str) -> None:
    """With a stand-in for what the core says of flash; test_flash.py runs it on this machine."""
    core, board = CORES[name], get_board("pico" if name == SDK else name)
    port = project / "lib" / "tt_board_arduino"
    flags = [*CXX_FLAGS, *board.arch_flags, *core.flags, *DEFINES[:2], f"-I{port}"]
    flags += [f"-I{project / 'lib' / name / 'src'}" for name in ("tt_kernels", "tt_runtime")]
    command = ["arm-none-eabi-g++", *flags, "-c", "-Os", *map(str, sorted(port.glob("*.cpp")))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    command = ["arm-none-eabi-nm", *map(str, tmp_path.glob("*.o"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert {row[-1] for row in rows if row[-2:-1] == ["T"]} >= {"tt_core_flash", "setup", "loop"}


@pytest.mark.arm
@pytest.mark.parametrize("loss", ["cross-entropy", "mse"])
def test_the_sketch_is_short_and_compiles(tmp_path: Path, loss: str) -> None:
    files = generate(tiny_plan(tmp_path, "full", TrainOptions(loss=loss)))
    write_project(files, tmp_path / "project")
    (sketch,) = (tmp_path / "project").glob("lib/tiny/examples/*/*.ino")
    text = sketch.read_text()
    lines = sum(1 for line in text.splitlines() if line.strip())
    assert lines <= (20 if loss == "cross-entropy" else 22)  # values must be kept beside the input
    (tmp_path / "sketch.cpp").write_text("#include <Arduino.h>\n" + text)
    folders = [f"-I{folder}" for folder in (tmp_path / "project").glob("lib/*/src")]
    flags = [*get_board("nano33ble").arch_flags, "-std=gnu++11", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(
        ["arm-none-eabi-g++", *flags, *folders, f"-I{HERE / 'arduino'}", "-c",
         str(tmp_path / "sketch.cpp"), "-o", str(tmp_path / "sketch.o")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.arm
def test_platformio_accepts_the_project_of_every_board(tmp_path: Path) -> None:
    made = tiny_plan(tmp_path)
    for board in load_boards():
        folder = tmp_path / board.name
        write_project(generate(made, boards=(board,)), folder)
        done = subprocess.run(
            [*find_platformio(), "project", "config", "-d", str(folder), "--lint",
             "--json-output"],
            env=build_environment(prepare_core_dir()), capture_output=True, text=True, check=False,
        )  # fmt: skip
        found = ast.literal_eval(done.stdout)  # PlatformIO prints it as Python, not as JSON
        assert done.returncode == 0 and found["errors"] == [] == found["warnings"], board.name


@pytest.mark.arm
def test_libraries_have_valid_manifests(project: Path) -> None:
    """By PlatformIO's own schema, and by what the Arduino library specification requires."""
    from platformio.package.manifest.parser import ManifestParserFactory
    from platformio.package.manifest.schema import ManifestSchema

    for path in sorted(project.glob("lib/*/library.*")):
        parsed = ManifestParserFactory.new_from_file(str(path)).as_dict()
        # The list of licences would be fetched from the network.
        assert parsed.pop("license", "Apache-2.0") == "Apache-2.0"
        assert ManifestSchema().load_manifest(parsed)["name"] == path.parent.name
        if path.suffix == ".properties":
            fields = dict(line.split("=", 1) for line in path.read_text().splitlines())
            assert set(fields) >= {
                "name", "version", "author", "maintainer", "sentence", "paragraph", "category",
                "url", "architectures",
            }  # fmt: skip
            assert re.fullmatch(r"\d+\.\d+\.\d+", fields["version"])
            assert (path.parent / "src" / fields["includes"]).is_file()
