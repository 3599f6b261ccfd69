"""The memory map as plain text: live bytes against time, and what holds the peak.

In: a memory map. Out: lines of at most 80 columns. Must not know terminals or colours.
"""

from __future__ import annotations

from itertools import groupby

from tinytrain.ir import Phase
from tinytrain.memory.report import Holder, MemoryMap

COLUMNS = 80
ROWS = 10
BLOCKS = " ▁▂▃▄▅▆▇█"
MARGIN = 11  # columns left of the chart
SHOWN = 10  # holders of the peak


def render_text(memory: MemoryMap) -> str:
    """Chart and table, each line at most 80 columns, with a newline at the end."""
    if not memory.steps:
        return "no operators\n"
    peak = memory.steps[memory.peak]
    gap = memory.arena_bytes - memory.lower_bound_bytes
    missing = f", {gap:,} above the lower bound" if gap else ", at the lower bound"
    title = f"arena {memory.arena_bytes:,} bytes{missing}"
    lines = [title, *_chart(memory)]
    lines.append(_fit(f"peak: {peak.live_bytes:,} bytes at {peak.op} ({peak.phase.value})"))
    lines += _table(memory)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _chart(memory: MemoryMap) -> list[str]:
    live = [step.live_bytes for step in memory.steps]
    columns = COLUMNS - MARGIN
    each = max(1, columns // len(live))
    width = min(columns, each * len(live))
    # A column shows the most of the steps that fall into it.
    spans = [
        (x * len(live) // width, max(x * len(live) // width + 1, (x + 1) * len(live) // width))
        for x in range(width)
    ]
    top = max(live)
    eighths = [
        max(1, round(8 * ROWS * max(live[a:b]) / top)) if top and max(live[a:b]) else 0
        for a, b in spans
    ]
    lines: list[str] = []
    for row in reversed(range(ROWS)):
        label = f"{top * (row + 1) / ROWS / 1024:7.1f} KB" if row % 3 == 0 else ""
        bar = "".join(BLOCKS[min(8, max(0, e - 8 * row))] for e in eighths)
        lines.append(f"{label:>{MARGIN - 1}}┤{bar}" if label else f"{'':>{MARGIN - 1}}│{bar}")
    marks = ["▲" if a <= memory.peak < b else " " for a, b in spans]
    phases = [memory.steps[a].phase for a, _ in spans]
    lines.append(f"{'':>{MARGIN - 1}}└{_ruler(phases)}")
    lines.append(f"{'peak':>{MARGIN - 1}} {''.join(marks)}")
    return lines


def _ruler(phases: list[Phase]) -> str:
    """The time axis, with the names of the phases where they fit."""
    parts: list[str] = []
    for phase, members in groupby(phases):
        width = sum(1 for _ in members)
        name = f" {phase.value} "
        inside = f"{name:─^{width - 1}}" if len(name) < width else "─" * (width - 1)
        parts.append(f"{inside}┴")
    return "".join(parts)


def _table(memory: MemoryMap) -> list[str]:
    lines = [f"{'bytes':>9} {'saves':>9}  {'kind':<10} what, from where to where"]
    for holder in memory.holders[:SHOWN]:
        lines.append(_row(holder))
    more = memory.holders[SHOWN:]
    if more:
        total = sum(h.piece.nbytes for h in more)
        lines.append(f"{total:>9,} {'':>9}  {len(more)} more")
    frees = ", ".join(p.name for p in memory.frees_next)
    if frees:
        lines.append(_fit(f"freed first: {frees}"))
    return lines


def _row(holder: Holder) -> str:
    piece = holder.piece
    life = f"{piece.made_by or 'the caller'} .. {piece.last_used_by or 'never used'}"
    if piece.kind == "scratch":
        life = "this operator"
    return _fit(
        f"{piece.nbytes:>9,} {holder.saving_bytes:>9,}  {piece.kind:<10} {piece.name}, {life}"
    )


def _fit(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"
