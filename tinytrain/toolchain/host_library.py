"""The generated C as a shared library of this machine: compiling, loading, prototypes.

In: a generated project. Out: a library that ctypes can call. Must not know arrays' meaning.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinytrain.resources import data_dir
from tinytrain.toolchain.generated import Generated
from tinytrain.toolchain.host import compile_shared_library, find_host_compiler

TRACE_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint32)
"""Called after each operator with its index in the schedule."""


class HostRun(ctypes.Structure):
    """`tt_host_run` of firmware/ports/host/tt_host.c."""

    _fields_ = [
        ("inputs", ctypes.c_void_p),
        ("targets", ctypes.c_void_p),
        ("rates", ctypes.c_void_p),
        ("order", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("outputs", ctypes.c_void_p),
        ("losses", ctypes.c_void_p),
        ("best", ctypes.c_void_p),
        ("apply", ctypes.c_int32),
    ]


_MODEL = ctypes.c_void_p
_RUN = ctypes.POINTER(HostRun)
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "tt_host_model_bytes": (ctypes.c_uint32, []),
    "tt_host_use": (None, [_MODEL]),
    "tt_host_open": (ctypes.c_int32, [_MODEL, ctypes.c_void_p, ctypes.c_uint64]),
    "tt_host_infer": (ctypes.c_int32, [_MODEL, _RUN]),
    "tt_host_train": (ctypes.c_int32, [_MODEL, _RUN]),
    "tt_reset": (None, [_MODEL]),
    "tt_set_seed": (None, [_MODEL, ctypes.c_uint32]),
    "tt_set_batch": (ctypes.c_int32, [_MODEL, ctypes.c_uint16]),
    "tt_set_state": (ctypes.c_int32, [_MODEL, ctypes.c_char_p, ctypes.c_size_t]),
    "tt_step_index": (ctypes.c_uint32, [_MODEL]),
    "tt_set_step_index": (None, [_MODEL, ctypes.c_uint32]),
    "tt_status_text": (ctypes.c_char_p, [ctypes.c_int32]),
}


def load_library(project: Generated, *, trace: bool = False) -> ctypes.CDLL:
    """Compile (or find in the cache) and load the host library of a project.

    Args:
        trace: the build that reports each operator.
    """
    flags = ["-O3", *_native_flags(), f"-DTT_HOST_PROGRAM={project.name}_program"]
    if trace:
        flags.append("-DTT_TRACE")
    host = data_dir("firmware") / "ports" / "host"
    with project.on_disk() as (sources, includes):
        kernels = with_simd(sources)
        path = compile_shared_library(
            [*kernels, host / "tt_host.c"], include_dirs=[*includes, host / "simd"], flags=flags
        )
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if trace:
        library.tt_host_set_trace.restype = None
        library.tt_host_set_trace.argtypes = [TRACE_CALLBACK]
    return library


def with_simd(sources: Sequence[Path]) -> list[Path]:
    """The same C files, those of kernels replaced where there is a version for this machine.

    ``TINYTRAIN_HOST_KERNELS=portable`` keeps those that any board can run.
    """
    if os.environ.get("TINYTRAIN_HOST_KERNELS") == "portable":
        return list(sources)
    folder = data_dir("firmware") / "ports" / "host" / "simd"
    fast = {path.name.replace("_simd.c", ".c"): path for path in folder.glob("*_simd.c")}
    return [fast.get(path.name, path) for path in sources] + [folder / "tt_simd.c"]


@functools.cache
def _native_flags() -> tuple[str, ...]:
    """AVX2 where the processor has it.

    Not ``-march=native``: with AVX-512 gcc's code for the kernels' short loops runs at half the
    speed, and a library built so could not be told from one for another processor.
    """
    if platform.machine().lower() not in ("x86_64", "amd64") or find_host_compiler().is_zig:
        return ()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return ()
    features = next((line for line in lines if line.startswith("flags")), "")
    return ("-mavx2",) if "avx2" in features.split() else ()
