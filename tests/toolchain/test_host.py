"""The host compiler and its cache."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from tinytrain.errors import ToolError
from tinytrain.toolchain.host import (
    STRICT_FLAGS,
    compile_program,
    compile_shared_library,
    sanitizer_variables,
)

ADD = '#include "offset.h"\nint add(int a);\nint add(int a) { return a + OFFSET; }\n'


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(folder: Path, offset: int = 5) -> tuple[Path, Path]:
    """Write a source and, in a folder of its own, the header it includes."""
    include = folder / "include"
    include.mkdir(parents=True, exist_ok=True)
    (include / "offset.h").write_text(f"#define OFFSET {offset}\n")
    (folder / "add.c").write_text(ADD)
    return folder / "add.c", include


def call(library: Path, value: int) -> int:
    return int(ctypes.CDLL(str(library)).add(value))


def test_library_is_built_and_reused(tmp_path: Path) -> None:
    source, include = write(tmp_path)
    first = compile_shared_library([source], include_dirs=[include], flags=STRICT_FLAGS)
    stamp = first.stat().st_ino
    assert call(first, 2) == 7
    again = compile_shared_library([source], include_dirs=[include], flags=STRICT_FLAGS)
    assert (again, again.stat().st_ino) == (first, stamp)


def test_place_does_not_count_but_headers_and_flags_do(tmp_path: Path) -> None:
    def build(folder: str, offset: int = 5, flags: tuple[str, ...] = ()) -> Path:
        source, include = write(tmp_path / folder, offset)
        return compile_shared_library([source], include_dirs=[include], flags=flags)

    first = build("a")
    assert build("b") == first
    assert build("a", offset=6) != first
    assert call(build("a", offset=6), 2) == 8
    assert build("a", flags=("-O0",)) != first


def test_nothing_is_left_half_written(tmp_path: Path, fresh_cache: Path) -> None:
    (tmp_path / "bad.c").write_text("int f(void) { return undeclared; }\n")
    with pytest.raises(ToolError) as caught:
        compile_shared_library([tmp_path / "bad.c"])
    assert caught.value.code == "compiler-failed"
    assert "undeclared" in caught.value.hint
    assert list((fresh_cache / "host").iterdir()) == []


def test_missing_source(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        compile_shared_library([tmp_path / "none.c"])
    assert caught.value.where.endswith("none.c")


def test_program(tmp_path: Path) -> None:
    source, include = write(tmp_path)
    (tmp_path / "main.c").write_text("int add(int);\nint main(void) { return add(37); }\n")
    program = compile_program([source, tmp_path / "main.c"], include_dirs=[include])
    assert subprocess.run([program], check=False).returncode == 42


def test_no_fused_multiply_add(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(
        "float f(float a, float b, float c);\n"
        "float f(float a, float b, float c) { return a * b + c; }\n"
    )
    f = ctypes.CDLL(str(compile_shared_library([tmp_path / "f.c"], flags=["-march=native"]))).f
    f.restype, f.argtypes = ctypes.c_float, [ctypes.c_float] * 3
    assert f(1 + 2**-12, 1 + 2**-12, -(1 + 2**-11)) == 0.0


def test_sanitizers_end_the_process(tmp_path: Path) -> None:
    (tmp_path / "over.c").write_text(
        "int over(int i);\nint over(int i) { int a[4] = {0}; return a[i]; }\n"
    )
    library = compile_shared_library([tmp_path / "over.c"], sanitize=True)
    script = f"import ctypes; print(ctypes.CDLL({str(library)!r}).over(INDEX))"
    done = [
        subprocess.run(
            [sys.executable, "-c", script.replace("INDEX", index)],
            env=sanitizer_variables(),
            capture_output=True,
            text=True,
            check=False,
        )
        for index in ("1", "4")
    ]
    assert (done[0].returncode, done[0].stdout) == (0, "0\n")
    assert done[1].returncode != 0
    assert "over.c:2" in done[1].stderr


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ToolError, match="ziglang") as caught:
        compile_shared_library([])
    assert caught.value.exit_code == 3
