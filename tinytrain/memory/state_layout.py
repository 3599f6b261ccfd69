"""Where the memory that outlives a training step lies: trained state, then batch buffers.

In: a graph. Out: offsets, and the state as bytes. The bytes of the state part are what a device
saves and what `state_sha256` is taken of. Must not know the arena.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinytrain.errors import InputError, InternalError
from tinytrain.ir import Array, Graph, Role, Tensor

ALIGNMENT = 4


@dataclass(frozen=True)
class StateLayout:
    """State and buffer tensors in one block of memory.

    Attributes:
        tensors: the state tensors, then the buffer tensors, each group sorted by name.
        offsets: tensor name -> byte offset in the block, a multiple of 4.
        state_bytes: size of the state part, which begins at 0 and is saved.
        buffer_bytes: size of the buffer part, which follows and is not saved.
    """

    tensors: tuple[Tensor, ...]
    offsets: Mapping[str, int]
    state_bytes: int
    buffer_bytes: int

    @property
    def state(self) -> tuple[Tensor, ...]:
        """The tensors of the saved part."""
        return tuple(t for t in self.tensors if t.role is Role.STATE)

    def initial(self) -> bytes:
        """The state part before any training."""
        return self.pack({t.name: _initial(t) for t in self.state})

    def pack(self, values: Mapping[str, Array]) -> bytes:
        """The state part as little-endian bytes, padding 0.

        Args:
            values: tensor name -> array of the tensor's shape and type; others are ignored.

        Raises:
            InternalError: a value is missing, or has another shape or type.
        """
        block = bytearray(self.state_bytes)
        for tensor in self.state:
            value = values.get(tensor.name)
            if value is None:
                raise _refused(tensor, "has no value")
            if value.shape != tensor.shape or value.dtype != np.dtype(tensor.dtype):
                raise _refused(tensor, f"got a value {value.dtype}{list(value.shape)}")
            start = self.offsets[tensor.name]
            raw = np.ascontiguousarray(value, dtype=_little_endian(tensor)).tobytes()
            block[start : start + len(raw)] = raw
        return bytes(block)

    def unpack(self, block: bytes) -> dict[str, Array]:
        """Tensor name -> array (a copy), from the bytes of the state part.

        Raises:
            InputError: the block has another size.
        """
        if len(block) != self.state_bytes:
            raise InputError(
                "state-size",
                "memory",
                f"the state has {len(block)} bytes, this model's has {self.state_bytes}",
                hint="load a state that was saved with the same model and scheme",
            )
        values: dict[str, Array] = {}
        for tensor in self.state:
            flat = np.frombuffer(
                block, _little_endian(tensor), tensor.size, self.offsets[tensor.name]
            )
            values[tensor.name] = flat.reshape(tensor.shape).astype(tensor.dtype)
        return values


def state_layout(graph: Graph) -> StateLayout:
    """The layout of a graph's state and buffer tensors, independent of the operators' order."""
    state = _by_name(graph, Role.STATE)
    buffers = _by_name(graph, Role.BUFFER)
    offsets: dict[str, int] = {}
    position = 0
    state_bytes = 0
    for tensor in (*state, *buffers):
        offsets[tensor.name] = position
        position += -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT
        if tensor.role is Role.STATE:
            state_bytes = position
    return StateLayout((*state, *buffers), offsets, state_bytes, position - state_bytes)


def _by_name(graph: Graph, role: Role) -> tuple[Tensor, ...]:
    found = (t for t in graph.tensors.values() if t.role is role)
    return tuple(sorted(found, key=lambda t: t.name))


def _initial(tensor: Tensor) -> Array:
    if tensor.data is None:
        return np.zeros(tensor.shape, tensor.dtype)
    return tensor.data


def _little_endian(tensor: Tensor) -> np.dtype[np.generic]:
    return np.dtype(tensor.dtype).newbyteorder("<")


def _refused(tensor: Tensor, why: str) -> InternalError:
    expected = f"expected {tensor.dtype}{list(tensor.shape)}"
    return InternalError("state-value", "memory", f"{why}, {expected}", where=tensor.name)
