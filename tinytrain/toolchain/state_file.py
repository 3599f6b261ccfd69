"""State files: a trained state with the record that the device's state store puts before it.

In: bytes. Out: `StateFile`, checked. Must not know devices.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from tinytrain.errors import InputError

_RECORD = struct.Struct("<4s7I")
_MAGIC = b"TTS2"


@dataclass(frozen=True)
class StateFile:
    """A state, and the program, step and seed it belongs to."""

    fingerprint: int
    step_index: int
    seed: int
    state: bytes


def encode_state(file: StateFile) -> bytes:
    """The bytes of a state file: as in tt_store.h, with sequence number 0."""
    head = _RECORD.pack(
        _MAGIC, 0, file.fingerprint, len(file.state), zlib.crc32(file.state), file.step_index,
        file.seed, 0,
    )[:-4]  # fmt: skip
    return head + struct.pack("<I", zlib.crc32(head)) + file.state


def decode_state(data: bytes, where: str) -> StateFile:
    """Read a state file.

    Raises:
        InputError: it is none, or damaged.
    """
    if len(data) < _RECORD.size or data[:4] != _MAGIC:
        raise _bad(where, "it is not a state file")
    _, _, fingerprint, size, crc, step_index, seed, head_crc = _RECORD.unpack_from(data)
    state = data[_RECORD.size :]
    if zlib.crc32(data[: _RECORD.size - 4]) != head_crc or len(state) != size:
        raise _bad(where, "it is damaged")
    if zlib.crc32(state) != crc:
        raise _bad(where, "it is damaged")
    return StateFile(fingerprint, step_index, seed, state)


def _bad(where: str, message: str) -> InputError:
    return InputError(
        "bad-state-file",
        "state",
        f"the state cannot be read: {message}",
        where=where,
        hint="`tinytrain state pull` writes state files",
    )
