"""Frames of the link: what stands between two zeros on the line (docs/link.md).

In: kinds, numbers, payloads. Out: bytes, and back. Must not know what payloads mean.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

from cobs import cobs

VERSION = 1
WINDOW = 8
OVERHEAD_BYTES = 12
"""Header and CRC; COBS adds one byte for every 254, and there are two delimiters."""

_HEADER = struct.Struct("<BBHI")
_CRC = struct.Struct("<I")
_LONGEST = 1 << 20  # of what has no end: noise is dropped


class Kind(IntEnum):
    """Requests; an answer's kind is the request's plus `ANSWER`."""

    HELLO = 1
    INFER = 2
    TRAIN = 3
    EVALUATE = 4
    SAVE = 5
    LOAD = 6
    READ_STATE = 7
    WRITE_STATE = 8
    COMMIT_STATE = 9
    STATISTICS = 10
    RESET = 11
    CONFIGURE = 12
    PUT_INPUT = 13


ANSWER = 0x80
REFUSAL = 0xFF


class Reason(IntEnum):
    """Why a frame was refused."""

    DAMAGED = 1
    GAP = 2
    SESSION = 3
    PROTOCOL = 4
    FORGOTTEN = 5


@dataclass(frozen=True)
class Frame:
    """One frame; `kind` is an int because anything may come from a line."""

    kind: int
    session: int
    sequence: int
    payload: bytes
    version: int = VERSION


def encode(frame: Frame) -> bytes:
    """The bytes of a frame, delimiters included."""
    header = _HEADER.pack(frame.version, frame.kind, frame.session, frame.sequence)
    body = header + frame.payload
    coded: bytes = cobs.encode(body + _CRC.pack(zlib.crc32(body)))
    return b"\0" + coded + b"\0"


class Decoder:
    """Takes frames out of a stream of bytes; what is damaged is counted and dropped."""

    def __init__(self) -> None:
        self.damaged = 0
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes."""
        *whole, self._rest = (self._rest + data).split(b"\0")
        if len(self._rest) > _LONGEST:
            self._rest = b""
            self.damaged += 1
        frames = []
        for part in whole:
            frame = _decode(part) if part else None
            if frame is not None:
                frames.append(frame)
            elif part:
                self.damaged += 1
        return frames


def _decode(part: bytes) -> Frame | None:
    try:
        body = cobs.decode(part)
    except cobs.DecodeError:
        return None
    if len(body) < OVERHEAD_BYTES or zlib.crc32(body[:-4]) != _CRC.unpack(body[-4:])[0]:
        return None
    version, kind, session, sequence = _HEADER.unpack_from(body)
    return Frame(kind, session, sequence, body[_HEADER.size : -4], version)
