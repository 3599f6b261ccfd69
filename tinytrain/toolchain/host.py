"""Compile C for the machine we run on, with a cache.

In: C files, include folders, flags. Out: the path of a shared library or a program. Must not know
what the C computes. Objects are cached by compiler, flags and source with all that it includes, so
a change in any header counts and an unchanged kernel is compiled once, whatever it is linked with.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tinytrain.errors import ToolError
from tinytrain.toolchain.cache import cache_dir
from tinytrain.toolchain.includes import digest_of_unit

NUMERIC_FLAGS = (
    "-std=c11",
    "-O2",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-strict-aliasing",
    "-Werror=overflow",
)
"""What every build has: no contraction, so that floats round as they do on the board; constants
that do not fit their field are errors."""

STRICT_FLAGS = (
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wundef",
    "-Wmissing-prototypes",
    "-Wcast-qual",
    "-Wdouble-promotion",
    "-Werror",
)
"""The warnings of the project's C; not for a user's build, whose compiler we do not know."""

_SANITIZE_FLAGS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
)
_STAGE = "toolchain"
_TAIL_LINES = 30
_KEEP_S = 30 * 24 * 3600.0
_LARGEST_POOL = 4


@dataclass(frozen=True)
class HostCompiler:
    """A C compiler: its command, one line that tells versions apart, and whether it is Zig's."""

    command: tuple[str, ...]
    version: str
    is_zig: bool


@functools.lru_cache(maxsize=8)
def _probe(command: tuple[str, ...], is_zig: bool) -> HostCompiler | None:
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.splitlines()
    return HostCompiler(command, lines[0], is_zig) if done.returncode == 0 and lines else None


def find_host_compiler() -> HostCompiler:
    """Return the first that works of: $CC, cc, gcc, clang, Zig's compiler from PyPI.

    Raises:
        ToolError: none does.
    """
    chosen = os.environ.get("CC")
    candidates = [tuple(shlex.split(chosen))] if chosen else []
    candidates += [(name,) for name in ("cc", "gcc", "clang") if shutil.which(name)]
    for command in candidates:
        compiler = _probe(command, "zig" in Path(command[0]).name)
        if compiler is not None:
            return compiler
    if importlib.util.find_spec("ziglang") is not None:
        compiler = _probe((sys.executable, "-m", "ziglang", "cc"), True)
        if compiler is not None:
            return compiler
    raise ToolError(
        "missing-compiler",
        _STAGE,
        "no C compiler for this machine was found",
        hint="apt install gcc, or pip install ziglang",
    )


def compile_shared_library(
    sources: Sequence[Path],
    *,
    include_dirs: Sequence[Path] = (),
    flags: Sequence[str] = (),
    sanitize: bool = False,
) -> Path:
    """Compile and link `sources` to a shared library, or return the cached one.

    Args:
        include_dirs: searched for headers, in this order.
        flags: further compiler flags; they come after `NUMERIC_FLAGS`.
        sanitize: with address and undefined-behaviour sanitizers, any finding of which ends the
            process. A Python process can only load such a library if it was started with
            `sanitizer_variables`.

    Raises:
        ToolError: there is no compiler, or it refused the sources.
    """
    return _build(sources, include_dirs, ("-fPIC", *flags), ("-shared",), ".so", sanitize)


def compile_program(
    sources: Sequence[Path],
    *,
    include_dirs: Sequence[Path] = (),
    flags: Sequence[str] = (),
    sanitize: bool = False,
) -> Path:
    """Compile and link `sources` to a program; arguments as in `compile_shared_library`."""
    return _build(sources, include_dirs, flags, (), "", sanitize)


def sanitizer_variables() -> dict[str, str]:
    """Return the variables with which Python must start to load a sanitized library.

    Raises:
        ToolError: the compiler brings no sanitizer library.
    """
    compiler = find_host_compiler()
    for name in ("libasan.so", "libclang_rt.asan-x86_64.so", "libclang_rt.asan-aarch64.so"):
        found = _execute(compiler, [f"-print-file-name={name}"], "").strip()
        if Path(found).is_absolute() and Path(found).exists():
            # Python itself leaks by design, and its allocator is not the sanitizer's.
            options = "detect_leaks=0:allocator_may_return_null=1"
            return {"LD_PRELOAD": str(Path(found).resolve()), "ASAN_OPTIONS": options}
    raise _no_sanitizers(compiler)


def _no_sanitizers(compiler: HostCompiler) -> ToolError:
    return ToolError(
        "missing-sanitizers",
        _STAGE,
        "the C compiler has no address sanitizer",
        where=" ".join(compiler.command),
        hint="apt install gcc",
    )


def _build(
    sources: Sequence[Path],
    include_dirs: Sequence[Path],
    flags: Sequence[str],
    link_flags: Sequence[str],
    suffix: str,
    sanitize: bool,
) -> Path:
    compiler = find_host_compiler()
    if sanitize and compiler.is_zig:
        raise _no_sanitizers(compiler)
    if sanitize:
        flags = (*flags, *_SANITIZE_FLAGS)
        link_flags = (*link_flags, *_SANITIZE_FLAGS)
    elif compiler.is_zig:
        flags = (*flags, "-fno-sanitize=all")  # its default stops at undefined behaviour, unnamed
    unit_flags = (*NUMERIC_FLAGS, *flags, *(f"-I{folder}" for folder in include_dirs))
    store = cache_dir() / "host"
    _make_store(store)

    def compile_one(source: Path) -> Path:
        content = None if sanitize else digest_of_unit(source, include_dirs)
        return _compile_unit(compiler, source, flags, unit_flags, store, sanitize, content)

    with ThreadPoolExecutor(min(_LARGEST_POOL, os.cpu_count() or 1)) as pool:
        objects = list(pool.map(compile_one, sources))
    key = _digest([compiler.version, suffix, *link_flags, *(path.name for path in objects)])
    target = store / f"{key}{suffix}"
    if not _reuse(target):
        _produce(compiler, [*map(str, objects), *link_flags, "-lm"], target, "")
        _forget_old(store)
    return target


def _compile_unit(
    compiler: HostCompiler,
    source: Path,
    flags: Sequence[str],
    unit_flags: Sequence[str],
    store: Path,
    sanitize: bool,
    content: str | None,
) -> Path:
    # Without line markers (-P) the text does not depend on where the files lie. Sanitizers report
    # lines, so there they count.
    markers = () if sanitize else ("-P",)
    text = content or _execute(compiler, [*unit_flags, "-E", *markers, str(source)], str(source))
    key = _digest([*compiler.command, compiler.version, *NUMERIC_FLAGS, *flags, text])
    target = store / f"{key}.o"
    if not _reuse(target):
        _produce(compiler, [*unit_flags, "-c", str(source)], target, str(source))
    return target


def _produce(compiler: HostCompiler, arguments: Sequence[str], target: Path, where: str) -> None:
    """Let the compiler write `target` by way of a temporary file, so it is never half there."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="tmp") as staging:
        fresh = Path(staging) / target.name
        _execute(compiler, [*arguments, "-o", str(fresh)], where)
        os.replace(fresh, target)


def _execute(compiler: HostCompiler, arguments: Sequence[str], where: str) -> str:
    command = [*compiler.command, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except OSError as error:
        raise ToolError(
            "compiler-failed", _STAGE, f"cannot start the C compiler: {error}", where=where
        ) from error
    if done.returncode != 0:
        tail = "\n".join(done.stderr.rstrip().splitlines()[:_TAIL_LINES])
        raise ToolError(
            "compiler-failed",
            _STAGE,
            f"the C compiler refused its input: {' '.join(command)}",
            where=where,
            hint="it said:\n" + tail,
        )
    return done.stdout


def _digest(parts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogateescape")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()[:40]


def _make_store(store: Path) -> None:
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(
            "cache-dir",
            _STAGE,
            f"cannot write the cache: {error}",
            where=str(store),
            hint="set TINYTRAIN_CACHE to a folder that can be written",
        ) from error


def _reuse(path: Path) -> bool:
    """Whether `path` is there; if so, note that it is still in use."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def _forget_old(store: Path) -> None:
    """Remove what no build has used for a month."""
    oldest = time.time() - _KEEP_S
    for path in store.iterdir():
        try:
            if path.is_file() and path.stat().st_mtime < oldest:
                path.unlink()
        except OSError:
            continue  # another process was faster
