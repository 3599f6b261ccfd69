"""Generated C under the compilers: warnings, symbols, two models in one program."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from codegen import generate, write_project
from tests.codegen.models import tiny_plan
from tinytrain.boards import get_board
from tinytrain.errors import ToolError
from tinytrain.resources import data_dir
from tinytrain.toolchain.generated import load_generated
from tinytrain.toolchain.host import NUMERIC_FLAGS, STRICT_FLAGS, compile_program
from tinytrain.train import TrainOptions

HERE = Path(__file__).resolve().parent
BATCHES = TrainOptions(batch=4)
# Nothing of the heap, of files or of exit may be called from what runs on a board.
ALLOWED = {"memcpy", "memmove", "memset", "sqrtf"}
# What compilers call for arithmetic that a processor lacks (Arm's run-time ABI, libgcc).
RUNTIME_ABI = re.compile(r"__aeabi_\w+|__\w+(sf|df|si|di)\w*[23]?|_GLOBAL_OFFSET_TABLE_|tt_\w+")


def library_sources(project: Path) -> tuple[list[Path], list[Path]]:
    """(C files, include folders) of a project on disk, without the port of an emulator."""
    folders = [p / "src" for p in sorted((project / "lib").iterdir()) if (p / "src").is_dir()]
    return [source for folder in folders for source in sorted(folder.glob("*.c"))], folders


@pytest.fixture
def two_models(tmp_path: Path) -> Path:
    """A project with a model that learns in batches and, beside it, one that only infers."""
    board = [get_board("mps2-an386")]
    files = generate(tiny_plan(tmp_path, "full", BATCHES), boards=board)
    files |= {
        name: data
        for name, data in generate(tiny_plan(tmp_path, "none", seed=5), name="other").items()
        if name.startswith("lib/other/")
    }
    write_project(files, tmp_path / "project")
    return tmp_path / "project"


def test_two_models_in_one_program(two_models: Path) -> None:
    sources, includes = library_sources(two_models)
    program = compile_program(
        [*sources, HERE / "runtime_probe.c"], include_dirs=includes, flags=STRICT_FLAGS
    )
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("state", ["int8", "int16", "float32"])
@pytest.mark.parametrize("loss", ["cross-entropy", "mse"])
def test_application_has_no_warning_on_the_host(tmp_path: Path, state: str, loss: str) -> None:
    options = TrainOptions(weight_state=state, loss=loss)
    project = load_generated(generate(tiny_plan(tmp_path, "full", options)))
    ports = data_dir("firmware") / "ports"
    with project.on_disk(application=True) as (sources, includes):
        compile_program(
            [*sources, ports / "host" / "tt_port_host.c"],
            include_dirs=[*includes, ports / "qemu"],
            flags=STRICT_FLAGS,
        )


@pytest.mark.parametrize("abi", ["TT_RUNTIME_ABI", "TT_KERNELS_ABI"])
def test_another_abi_does_not_compile(tmp_path: Path, abi: str) -> None:
    files = generate(tiny_plan(tmp_path))
    header = {
        "TT_RUNTIME_ABI": "lib/tt_runtime/src/tt_program.h",
        "TT_KERNELS_ABI": "lib/tt_kernels/src/tt_types.h",
    }[abi]
    text = files[header].decode()
    files[header] = re.sub(rf"#define {abi} (\d+)", rf"#define {abi} \g<1>1", text).encode()
    assert files[header] != text.encode()
    with (
        load_generated(files).on_disk(application=True) as (sources, includes),
        pytest.raises(ToolError) as caught,
    ):
        compile_program(sources, include_dirs=includes)
    assert "another version" in caught.value.hint or "was written for" in caught.value.hint


def compile_for_arm(project: Path, board: str, into: Path) -> list[Path]:
    """Compile every library of a project under the strict flags."""
    sources, includes = library_sources(project)
    into.mkdir()
    command = ["arm-none-eabi-gcc", *get_board(board).arch_flags, *NUMERIC_FLAGS, *STRICT_FLAGS]
    command += [f"-I{folder}" for folder in includes]
    done = subprocess.run(
        [*command, "-c", *map(str, sources)],
        cwd=into,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(into.glob("*.o"))


def undefined_symbols(objects: list[Path], nm: str) -> set[str]:
    def symbols(*flags: str) -> set[str]:
        done = subprocess.run(
            [nm, *flags, *map(str, objects)], capture_output=True, text=True, check=True
        )
        return {line.split()[-1] for line in done.stdout.splitlines() if len(line.split()) > 1}

    return symbols("--undefined-only") - symbols("--defined-only", "--extern-only")


@pytest.mark.arm
@pytest.mark.parametrize("board", ["mps2-an385", "mps2-an386", "mps2-an500"])
def test_no_warning_and_no_forbidden_symbol_on_arm(
    two_models: Path, tmp_path: Path, board: str
) -> None:
    objects = compile_for_arm(two_models, board, tmp_path / board)
    needed = undefined_symbols(objects, "arm-none-eabi-nm")
    foreign = {name for name in needed - ALLOWED if not RUNTIME_ABI.fullmatch(name)}
    assert foreign == set()
    assert not any(name.endswith(("df2", "df3", "dmul", "dadd")) for name in needed), needed


@pytest.mark.arm
def test_all_symbols_are_prefixed(two_models: Path, tmp_path: Path) -> None:
    objects = compile_for_arm(two_models, "mps2-an386", tmp_path / "objects")
    done = subprocess.run(
        ["arm-none-eabi-nm", "--defined-only", "--extern-only", *map(str, objects)],
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line.split()[-1] for line in done.stdout.splitlines() if len(line.split()) == 3]
    assert names
    assert [n for n in names if not n.startswith(("tt_", "tiny_", "other_"))] == []


@pytest.mark.arm
def test_header_and_example_are_cxx(two_models: Path, tmp_path: Path) -> None:
    sketch = two_models / "lib" / "tiny" / "examples" / "tiny_learns" / "tiny_learns.ino"
    stand_in = (
        "#include <stdint.h>\n#define A0 0\n#define LOW 0\n#define INPUT_PULLUP 2\n"
        "struct Port { void begin(long); void println(const char *); void println(double);\n"
        "void println(int); void println(long); };\nextern Port Serial;\n"
        "int analogRead(int); int digitalRead(int);\n"
        "void pinMode(int, int);\n"
    )
    (tmp_path / "sketch.cpp").write_text(stand_in + sketch.read_text())
    _, includes = library_sources(two_models)
    flags = ["-std=gnu++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    done = subprocess.run(
        ["arm-none-eabi-g++", *flags, *(f"-I{f}" for f in includes), str(tmp_path / "sketch.cpp")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
