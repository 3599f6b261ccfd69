"""Damaged files for tests: seeded, so that a failure can be repeated by its label.

In: bytes of sound files. Out: labelled damaged bytes. Must not know the readers under test.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

Generator = np.random.Generator

ABSURD_INTS = (
    0, 1, -1, 2, 127, 128, 255, 256, 32767, 65535, 65536, 2**24, 2**30, 2**31 - 1, -(2**31),
    -2, -128, 0x7F800000, 0x7FC00000, -(2**23), 0x3F800000, 4096, 100_000_000,
)  # fmt: skip


def truncate(data: bytes, rng: Generator) -> bytes:
    """Cut at a random place, half of the time near the end."""
    low = 0 if rng.random() < 0.5 else max(0, len(data) - 64)
    return data[: int(rng.integers(low, len(data)))]


def flip_bits(data: bytes, rng: Generator) -> bytes:
    """Flip up to eight bits."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        out[int(rng.integers(len(out)))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def set_bytes(data: bytes, rng: Generator) -> bytes:
    """Overwrite up to eight bytes with random ones."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        out[int(rng.integers(len(out)))] = int(rng.integers(256))
    return bytes(out)


def set_ints(data: bytes, rng: Generator) -> bytes:
    """Write absurd 32-bit integers (or float specials) at aligned places."""
    out = bytearray(data)
    if len(out) < 4:
        return bytes(out)
    for _ in range(int(rng.integers(1, 4))):
        place = 4 * int(rng.integers(len(out) // 4))
        value = ABSURD_INTS[int(rng.integers(len(ABSURD_INTS)))]
        struct.pack_into("<i", out, place, value)
    return bytes(out)


def nudge_ints(data: bytes, rng: Generator) -> bytes:
    """Add a small number to 32-bit integers: near misses in offsets, indices and sizes."""
    out = bytearray(data)
    if len(out) < 4:
        return bytes(out)
    for _ in range(int(rng.integers(1, 4))):
        place = 4 * int(rng.integers(len(out) // 4))
        value = struct.unpack_from("<I", out, place)[0] + int(rng.integers(-8, 9))
        struct.pack_into("<I", out, place, value & 0xFFFFFFFF)
    return bytes(out)


def swap_chunks(data: bytes, rng: Generator) -> bytes:
    """Swap two chunks of equal size."""
    size = int(rng.integers(1, max(2, len(data) // 4)))
    a, b = (int(rng.integers(0, max(1, len(data) - size))) for _ in range(2))
    out = bytearray(data)
    out[a : a + size], out[b : b + size] = data[b : b + size], data[a : a + size]
    return bytes(out[: len(data)])


def cut_out(data: bytes, rng: Generator) -> bytes:
    """Remove or repeat a piece, so that all behind it moves."""
    a = int(rng.integers(len(data)))
    b = min(len(data), a + int(rng.integers(1, 65)))
    return data[:a] + data[b:] if rng.random() < 0.5 else data[:b] + data[a:]


MUTATIONS: Sequence[Callable[[bytes, Generator], bytes]] = (
    truncate, flip_bits, set_bytes, set_ints, set_ints, nudge_ints, nudge_ints, swap_chunks,
    cut_out,
)  # fmt: skip


def mutate(
    bases: Mapping[str, bytes], count: int, seed: int, structure: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield `count` damaged files as (label, bytes).

    Args:
        bases: name -> sound file; taken in turn.
        seed: file i of a seed is always the same.
        structure: where given, half of the damage falls on the first so many bytes or on the last
            so many, which hold structure rather than weights.
    """
    names = sorted(bases)
    for i in range(count):
        rng = np.random.default_rng((seed, i))
        name = names[i % len(names)]
        data = bases[name]
        how = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
        if structure and how is not truncate and rng.random() < 0.5:
            head, tail = data[:structure], data[structure:]
            if rng.random() < 0.5:
                head, tail = data[:-structure], data[-structure:]
                damaged = head + how(tail, rng) if tail else how(head, rng)
            else:
                damaged = how(head, rng) + tail
        else:
            damaged = how(data, rng)
        yield f"seed {seed}, file {i}: {how.__name__} of {name}", damaged


Arrays = Mapping[str, npt.NDArray[np.generic]]


def pack(arrays: Arrays) -> bytes:
    """The bytes of an `.npz` file."""
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def mutate_npz(arrays: Arrays, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield `count` damaged `.npz` files: odd content in a sound container, then damaged bytes."""
    sound = pack(arrays)
    odd = list(_odd_npz(arrays))
    yield from odd[:count]
    yield from mutate({"npz": sound}, max(0, count - len(odd)), seed)


def _odd_npz(arrays: Arrays) -> Iterator[tuple[str, bytes]]:
    """Containers that open, with content that no data file may have."""
    for key, value in arrays.items():
        rest = {k: v for k, v in arrays.items() if k != key}
        yield f"without {key}", pack(rest)
        yield f"empty {key}", pack({**rest, key: value[:0]})
        yield f"short {key}", pack({**rest, key: value[:-1]})
        yield f"scalar {key}", pack({**rest, key: np.asarray(value.ravel()[0])})
        yield f"flat {key}", pack({**rest, key: value.ravel()})
        yield f"deep {key}", pack({**rest, key: value[..., None, None]})
        yield f"text {key}", pack({**rest, key: value.astype("U8")})
        yield f"complex {key}", pack({**rest, key: value.astype(np.complex64)})
        yield f"bool {key}", pack({**rest, key: value.astype(bool)})
        yield f"int64 {key}", pack({**rest, key: value.astype(np.int64) * 2**40})
        yield f"NaN {key}", pack({**rest, key: np.full(value.shape, np.nan, np.float32)})
        yield f"inf {key}", pack({**rest, key: np.full(value.shape, np.inf, np.float32)})
        yield f"negative {key}", pack({**rest, key: np.full(value.shape, -1, np.int16)})
        yield f"objects {key}", pack({**rest, key: np.array([{"a": 1}, None], dtype=object)})
        yield f"huge {key}", _with_header(rest, key, (2**40, 2**10))
        yield f"negative shape {key}", _with_header(rest, key, (-1, 3))
        yield f"not an array {key}", _with_member(rest, f"{key}.npy", b"hello")
        yield f"bare member {key}", _with_member(rest, key, b"\x93NUMPY")
    yield "empty file", b""
    yield "empty container", pack({})
    yield "text", b"x_train,y_train\n1,2\n"
    yield "a bare npy", _npy(np.zeros(3))
    yield "a pickle", b"\x80\x04K\x01."


def _npy(array: npt.NDArray[np.generic]) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _with_header(rest: Arrays, key: str, shape: tuple[int, ...]) -> bytes:
    """A member whose header claims `shape` over eight bytes of data."""
    text = f"{{'descr': '|i1', 'fortran_order': False, 'shape': {shape}, }}"
    header = text.ljust(117).encode() + b"\n"
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8)
    return _with_member(rest, f"{key}.npy", member)


def _with_member(rest: Arrays, name: str, content: bytes) -> bytes:
    out = io.BytesIO(pack(rest))
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr(name, content)
    return out.getvalue()
