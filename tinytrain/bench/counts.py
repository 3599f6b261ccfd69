"""Counts kept in the repository: written, read, and compared with new ones.

In: `Count` values. Out: a JSON file of totals, and what has become worse.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tinytrain.bench.kernels import KernelCount
from tinytrain.bench.models import Count

TOLERANCE = 0.02
"""A total may grow by this fraction before it counts as a regression."""

RESOLUTION = 40
"""Instructions to which the emulator counts."""


def as_totals(counts: Iterable[Count]) -> dict[str, int]:
    """``<name>/<board>`` -> instructions."""
    return {f"{count.name}/{count.board}": count.instructions for count in counts}


def kernel_totals(counts: Iterable[KernelCount]) -> dict[str, int]:
    """``<layer>/<kernel>/<board>/<set>`` -> instructions."""
    return {count.name: count.instructions for count in counts}


def write_counts(totals: Mapping[str, int], path: Path) -> None:
    """Put totals into a JSON file, one a line, in the order of their names; others stay."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = read_counts(path) if path.is_file() else {}
    text = json.dumps({**kept, **totals}, indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def read_counts(path: Path) -> dict[str, int]:
    """Read what `write_counts` wrote."""
    totals: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    return totals


def compare_counts(kept: Mapping[str, int], measured: Mapping[str, int]) -> list[str]:
    """One line for each that grew by more than `TOLERANCE` and `RESOLUTION`; empty is good."""
    return [
        f"{name}: {measured[name]:,} instructions, {before:,} before"
        f" ({measured[name] / before - 1:+.1%})"
        for name, before in sorted(kept.items())
        if name in measured and measured[name] > before * (1 + TOLERANCE) + RESOLUTION
    ]
