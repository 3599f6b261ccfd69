"""Watching a model's memory while it runs: every tensor after its operator, and stray writes.

In: all memory of a model, after each operator. Out: values by tensor name. Must not know how the
operators are run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.errors import InternalError, UsageError
from tinytrain.toolchain.generated import Generated

Array = npt.NDArray[Any]
_STAGE = "simulator"


class Watch:
    """Looks at the memory after each operator."""

    def __init__(self, project: Generated, memory: npt.NDArray[np.uint8], inputs: Array) -> None:
        self._project, self._memory = project, memory
        self.values: dict[str, Array] = {}
        self._strays: list[str] = []
        start = project.input_offset
        memory[start : start + project.input_bytes] = inputs.view(np.uint8).reshape(-1)
        for place in project.tensors.values():
            if place.role == "input":
                self.values[place.name] = read_tensor(project, memory, place.name)
        self._before = memory.copy()

    def after(self, index: int) -> None:
        """Note what operator `index` wrote, and whether it wrote what is not its own."""
        op = self._project.ops[index]
        changed = self._memory != self._before
        for name in op.outputs:
            place = self._project.tensors[name]
            value = read_tensor(self._project, self._memory, name)
            self.values[name] = value
            changed[place.offset : place.offset + value.nbytes] = False
        if op.scratch is not None:
            changed[op.scratch[0] : op.scratch[0] + op.scratch[1]] = False
        if changed.any():
            self._strays.append(f"{op.name} ({op.kind}) at byte {int(np.argmax(changed))}")
        self._before[:] = self._memory

    def finish(self) -> None:
        """Raise what was found; an exception cannot pass through C."""
        if self._strays:
            raise InternalError(
                "stray-write",
                _STAGE,
                "an operator wrote outside of its outputs and its scratch",
                where="; ".join(self._strays[:4]),
            )


def read_tensor(project: Generated, memory: npt.NDArray[np.uint8], name: str) -> Array:
    """A copy of a tensor out of all memory.

    Raises:
        UsageError: there is no such tensor.
    """
    place = project.tensors.get(name)
    if place is None:
        raise UsageError("unknown-tensor", _STAGE, f"no tensor is called {name!r}")
    size = int(np.prod(place.shape, dtype=np.int64)) * np.dtype(place.dtype).itemsize
    return memory[place.offset : place.offset + size].copy().view(place.dtype).reshape(place.shape)
