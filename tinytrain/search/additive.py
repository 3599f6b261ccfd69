"""The best picks where gains and bytes add up, exactly: a knapsack with one choice a group.

In: groups of options, each with a gain and a cost. Out: the whole front of picks that no other one
beats in both. Groups are merged one by one, and what is beaten is dropped at once; no pick of the
front is lost by that, so the front is exact (Nemhauser and Ullmann 1969). The front may be thinned
where it grows beyond a limit; the result says by how much it can then be off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

LIMIT = 20_000

K = TypeVar("K")


@dataclass(frozen=True)
class Option(Generic[K]):
    """One choice of a group: what it brings, and what it costs."""

    key: K
    gain: float
    cost: int


@dataclass(frozen=True)
class Point(Generic[K]):
    """A pick of the front: at most one option a group."""

    gain: float
    cost: int
    keys: tuple[K, ...]


@dataclass(frozen=True)
class Front(Generic[K]):
    """Points by rising cost and gain.

    Attributes:
        gap: gain that a better pick may have beyond the front's at the same cost; 0 is proof.
    """

    points: tuple[Point[K], ...]
    gap: float

    def best(self, budget: int) -> Point[K] | None:
        """The point of the largest gain within a budget."""
        fitting = [point for point in self.points if point.cost <= budget]
        return fitting[-1] if fitting else None


def pareto_front(groups: Iterable[Sequence[Option[K]]], limit: int = LIMIT) -> Front[K]:
    """Every pick that no other one beats; nothing at all is one of them.

    Args:
        groups: of each at most one option is picked; options with no gain are never picked.
        limit: points above which the front is thinned.
    """
    points: list[Point[K]] = [Point(0.0, 0, ())]
    gap = 0.0
    for group in groups:
        useful = [option for option in group if option.gain > 0]
        merged = list(points)
        for option in useful:
            merged += [
                Point(p.gain + option.gain, p.cost + option.cost, (*p.keys, option.key))
                for p in points
            ]
        points = _undominated(merged)
        if len(points) > limit:
            thinned = _thin(points, limit)
            gap += max(
                (b.gain - a.gain for a, b in zip(thinned, thinned[1:], strict=False)), default=0.0
            )
            points = thinned
    return Front(tuple(points), gap)


def _undominated(points: list[Point[K]]) -> list[Point[K]]:
    kept: list[Point[K]] = []
    for point in sorted(points, key=lambda p: (p.cost, -p.gain, len(p.keys))):
        if not kept or point.gain > kept[-1].gain:
            kept.append(point)
    return kept


def _thin(points: list[Point[K]], limit: int) -> list[Point[K]]:
    """At most `limit`, evenly by gain; the ends stay."""
    low, high = points[0].gain, points[-1].gain
    kept = [points[0]]
    for point in points[1:-1]:
        if (point.gain - kept[-1].gain) * (limit - 1) >= high - low:
            kept.append(point)
    return [*kept, points[-1]]
