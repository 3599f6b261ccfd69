"""The schemes of a search as SVG: what they reach against the bytes they take.

In: points. Out: SVG text, the same for the same points. Must not know files or pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 30, 50, 60
STYLE = (
    "text{font:11px sans-serif;fill:#222}"
    ".title{font-size:14px;font-weight:bold}"
    ".tick{fill:#555}.grid{stroke:#ddd}"
    ".tried{fill:#3b7a57}.other{fill:#b9b9b9}.best{fill:#b00020}"
    ".front{fill:none;stroke:#3b7a57;stroke-width:1.4}"
    ".budget{stroke:#b00020;stroke-dasharray:5 3}"
)


@dataclass(frozen=True)
class Mark:
    """A scheme: its bytes (or multiply-adds) across, what it reaches up."""

    name: str
    across: int
    up: float
    best: bool


def render_front(
    marks: Sequence[Mark], title: str, across: str, up: str, budget: int | None = None
) -> str:
    """The drawing, with a newline at the end.

    Args:
        marks: one at least.
        title: heading, any text.
        across, up: what the axes show.
        budget: drawn as a line; None for none.
    """
    right = max([m.across for m in marks] + ([budget] if budget is not None else [])) * 1.05
    low, high = min(m.up for m in marks), max(m.up for m in marks)
    margin = (high - low) * 0.1 or abs(high) * 0.1 or 1.0
    low, high = low - margin, high + margin

    def place(mark: Mark) -> tuple[float, float]:
        return (
            LEFT + mark.across / right * (WIDTH - LEFT - RIGHT),
            TOP + (high - mark.up) / (high - low) * (HEIGHT - TOP - BOTTOM),
        )

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>',
    ]
    lines += _grid(right, low, high)
    lines += [
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 18}" text-anchor="middle">'
        f"{escape(across)}</text>",
        f'<text x="{LEFT}" y="{TOP - 8}">{escape(up)}</text>',
    ]
    if budget is not None:
        x = LEFT + budget / right * (WIDTH - LEFT - RIGHT)
        lines.append(
            f'<line class="budget" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>'
        )
    front = [place(mark) for mark in unbeaten(marks)]
    lines.append(
        f'<polyline class="front" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in front)}"/>'
    )
    for mark in marks:
        x, y = place(mark)
        kind = "best" if mark.best else "tried"
        anchor = "end" if x > WIDTH * 0.7 else "start"
        lines += [
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
            f"<title>{escape(mark.name)}: {mark.up:.4g} at {mark.across:,}</title></circle>",
            f'<text x="{x + (-7 if anchor == "end" else 7):.1f}" y="{y + 4:.1f}" '
            f'text-anchor="{anchor}">{escape(_short(mark.name))}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _grid(right: float, low: float, high: float) -> list[str]:
    lines = []
    for i in range(5):
        x = LEFT + i / 4 * (WIDTH - LEFT - RIGHT)
        y = TOP + i / 4 * (HEIGHT - TOP - BOTTOM)
        lines += [
            f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>',
            f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>',
            f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
            f"{right * i / 4:,.0f}</text>",
            f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{high - (high - low) * i / 4:.3g}</text>",
        ]
    return lines


def unbeaten(marks: Sequence[Mark]) -> list[Mark]:
    """Those that no cheaper one reaches, by rising cost."""
    kept: list[Mark] = []
    for mark in sorted(marks, key=lambda m: (m.across, -m.up)):
        if not kept or mark.up > kept[-1].up:
            kept.append(mark)
    return kept


def _short(name: str) -> str:
    return name if len(name) <= 28 else name[:26] + "..."
