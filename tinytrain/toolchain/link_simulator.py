"""A device in this process: the link's C beside the generated C, compiled for this machine.

In: a generated project. Out: a transport. The storage outlives the device, so that a power cut can
be played. Must not know graphs.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tinytrain.errors import InternalError
from tinytrain.resources import data_dir
from tinytrain.toolchain.generated import MANIFEST, Source, load_generated
from tinytrain.toolchain.host import compile_shared_library
from tinytrain.toolchain.host_library import _native_flags, with_simd

_STAGE = "simulator"
_SLICE = 256  # bytes handed over at a time: their answers surely fit
_OUT_BYTES = 64 * 1024
_SLOT_BYTES = 12 + 32  # of the state store, beside the state


class _About(ctypes.Structure):
    """`tt_link_about`."""

    _fields_ = [
        ("scheme", ctypes.c_char_p),
        ("input_scale", ctypes.c_float),
        ("input_zero_point", ctypes.c_int32),
        ("output_scale", ctypes.c_float),
        ("output_zero_point", ctypes.c_int32),
    ]


_POINTER = ctypes.c_void_p
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "tt_host_model_bytes": (ctypes.c_uint32, []),
    "tt_host_open": (ctypes.c_int32, [_POINTER, _POINTER, ctypes.c_uint64]),
    "tt_host_link_bytes": (ctypes.c_uint32, []),
    "tt_host_link_erase_bytes": (ctypes.c_uint32, []),
    "tt_host_link_open": (
        ctypes.c_int32,
        [_POINTER, _POINTER, ctypes.POINTER(_About), _POINTER, ctypes.c_uint32, ctypes.c_int32],
    ),
    "tt_host_link_receive": (
        ctypes.c_uint32,
        [_POINTER, ctypes.c_char_p, ctypes.c_uint32, _POINTER, ctypes.c_uint32],
    ),
}


class SimulatedDevice:
    """A transport to a model in this process; answers are there as soon as bytes are sent.

    Args:
        source: the project's folder, or its files as `codegen.generate` returns them.

    Raises:
        InputError: not a generated project.
        ToolError: there is no C compiler, or it refused the sources.
    """

    name = "simulator"

    def __init__(self, source: Source) -> None:
        self.project = load_generated(source)
        self._library = _load(self.project)
        program = json.loads(self.project.files[MANIFEST])["program"]
        self._about = _about(program, json.loads(self.project.files[MANIFEST])["notes"])
        erase = int(self._library.tt_host_link_erase_bytes())
        slot = -(-(_SLOT_BYTES + self.project.state_bytes) // erase) * erase
        self._flash = np.zeros(2 * slot, np.uint8)
        self._memory = np.zeros(self.project.memory_bytes + 64, np.uint8)
        self._model = np.zeros(int(self._library.tt_host_model_bytes()) + 64, np.uint8)
        self._link = np.zeros(int(self._library.tt_host_link_bytes()) + 64, np.uint8)
        self._out = np.zeros(_OUT_BYTES, np.uint8)
        self._answers = bytearray()
        self._start(fresh=True)

    def restart(self) -> None:
        """Cut the power and bring it back: only the storage stays, and is not loaded by itself."""
        self._answers.clear()
        self._start(fresh=False)

    def send(self, data: bytes) -> None:
        """Hand bytes to the device, which works on them at once."""
        for at in range(0, len(data), _SLICE):
            part = data[at : at + _SLICE]
            count = self._library.tt_host_link_receive(
                _place(self._link), part, len(part), self._out.ctypes.data, _OUT_BYTES
            )
            self._answers += self._out[:count].tobytes()

    def receive(self, timeout_s: float) -> bytes:
        """What the device has answered; nothing more will come of waiting."""
        del timeout_s
        data = bytes(self._answers)
        self._answers.clear()
        return data

    def close(self) -> None:
        """Nothing to let go of."""

    def _start(self, *, fresh: bool) -> None:
        memory = _place(self._memory)
        status = self._library.tt_host_open(
            _place(self._model), memory, self.project.memory_bytes
        ) or self._library.tt_host_link_open(
            _place(self._link), _place(self._model), ctypes.byref(self._about),
            self._flash.ctypes.data, len(self._flash), int(fresh),
        )  # fmt: skip
        if status != 0:
            raise InternalError("runtime-status", _STAGE, f"the device does not start: {status}")


def _place(block: Any) -> int:
    """The first address in a block that is aligned for anything."""
    return int(block.ctypes.data) + -int(block.ctypes.data) % 64


def _about(program: Mapping[str, Any], notes: Mapping[str, str]) -> _About:
    given, output = program["input"], program["output"]
    return _About(
        notes.get("scheme", "").encode("utf-8"),
        given["scale"],
        given["zero_point"],
        0.0 if output["kind"] == "scores" else output["scale"],
        0 if output["kind"] == "scores" else output["zero_point"],
    )


def _load(project: Any) -> ctypes.CDLL:
    ports = data_dir("firmware") / "ports" / "host"
    flags = ["-O3", *_native_flags(), f"-DTT_HOST_PROGRAM={project.name}_program"]
    with project.on_disk() as (sources, includes):
        path = compile_shared_library(
            [*with_simd(sources), ports / "tt_host.c", ports / "tt_host_link.c"],
            include_dirs=[*includes, ports / "simd"],
            flags=flags,
        )
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
