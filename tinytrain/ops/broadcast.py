"""Broadcasting and reduction over at most four dimensions, as loops with strides.

In: shapes. Out: merged loop extents and strides for kernels, reduced axes for NumPy.
Source: NumPy's broadcasting rule. Must not know operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinytrain.ir import Array
from tinytrain.ops.base import Param
from tinytrain.ops.checks import MAX_RANK

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Loops:
    """Nested loops over a full tensor, outermost first; neighbours are merged where all agree.

    Attributes:
        extents: iterations of each loop.
        full: stride of the full tensor in each loop.
        strides: for each further operand its strides, 0 where it is repeated.
    """

    extents: tuple[int, ...]
    full: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @classmethod
    def over(cls, full: Shape, *operands: Shape) -> Loops:
        """Loops over `full`, to which every operand's shape broadcasts."""
        columns = [_strides(full, full), *(_strides(full, s) for s in operands)]
        loops: list[tuple[int, list[int]]] = []
        for i, extent in enumerate(full):
            if extent == 1:
                continue
            strides = [column[i] for column in columns]
            if loops and all(
                outer == inner * extent for outer, inner in zip(loops[-1][1], strides, strict=True)
            ):
                loops[-1] = (loops[-1][0] * extent, strides)
            else:
                loops.append((extent, strides))
        per_operand = [tuple(s[i] for _, s in loops) for i in range(len(columns))]
        return cls(tuple(n for n, _ in loops), per_operand[0], tuple(per_operand[1:]))

    def table(self, values: Sequence[int], fill: int) -> Array:
        """Values of the loops as a C table of four, outer loops filled up."""
        return np.array([fill] * (MAX_RANK - len(values)) + list(values), np.int32)


@dataclass(frozen=True)
class Reduction:
    """Loops split into those that an operand keeps and those it is reduced over.

    Each loop is (extent, stride of the full tensor, stride of the other operand or 0).
    """

    kept: tuple[tuple[int, int, int], ...]
    reduced: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, full: Shape, small: Shape, other: Shape | None = None) -> Reduction:
        """From `full` to `small`; `other` is an operand that is read alongside."""
        loops = Loops.over(full, small, full if other is None else other)
        rows = list(zip(loops.extents, loops.full, loops.strides[1], loops.strides[0], strict=True))
        return cls(
            tuple(row[:3] for row in rows if row[3] != 0),
            tuple(row[:3] for row in rows if row[3] == 0),
        )

    @property
    def count(self) -> int:
        """Elements that are reduced to one."""
        return int(np.prod([n for n, _, _ in self.reduced], dtype=np.int64))

    @property
    def params(self) -> Mapping[str, Param]:
        """The fields of the C struct `tt_reduction`: two loops each way."""
        kept = [(1, 0, 0)] * (2 - len(self.kept)) + list(self.kept)
        reduced = [(1, 0, 0)] * (2 - len(self.reduced)) + list(self.reduced)
        return {
            "kept_outer": kept[0][0],
            "kept_inner": kept[1][0],
            "kept_outer_stride": kept[0][1],
            "kept_inner_stride": kept[1][1],
            "reduced_outer": reduced[0][0],
            "reduced_inner": reduced[1][0],
            "reduced_outer_stride": reduced[0][1],
            "reduced_inner_stride": reduced[1][1],
        }

    @property
    def fits(self) -> bool:
        """Whether `params` can express it."""
        return len(self.kept) <= 2 and len(self.reduced) <= 2


def broadcast_problems(a: Shape, b: Shape) -> list[str]:
    """Operands must have at most four dimensions and broadcast by NumPy's rule."""
    if max(len(a), len(b)) > MAX_RANK:
        return [f"operand of rank {max(len(a), len(b))}, at most {MAX_RANK} is supported"]
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return ["operands whose shapes do not broadcast"]
    return []


def reduced_axes(full: Shape, small: Shape) -> tuple[int, ...]:
    """Axes of `full` along which an operand of shape `small` is repeated."""
    padded = _padded(full, small)
    return tuple(i for i, n in enumerate(full) if padded[i] == 1 and n > 1)


def _padded(full: Shape, small: Shape) -> Shape:
    return (1,) * (len(full) - len(small)) + small


def _strides(full: Shape, small: Shape) -> tuple[int, ...]:
    padded = _padded(full, small)
    strides, step = [], 1
    for n in reversed(padded):
        strides.append(step if n > 1 else 0)
        step *= n
    return tuple(reversed(strides))
