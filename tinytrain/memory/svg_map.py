"""The memory map as SVG: arena address against time, one rectangle a tensor.

In: a memory map. Out: SVG text, the same for the same map. Must not know files or pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import escape

from tinytrain.memory.report import KINDS, MemoryMap, Piece

WIDTH, HEIGHT = 1080, 560
LEFT, RIGHT, TOP, BOTTOM = 78, 20, 74, 74
GLYPH = 5.8  # width of a character of the labels, in pixels
FILL = {
    "input": "#7aa6c2",
    "activation": "#a8d5a2",
    "saved": "#f2c14e",
    "error": "#e08a7b",
    "scratch": "#c9c4d4",
}
LEGEND = {
    "input": "input",
    "activation": "activation, forward only",
    "saved": "saved for the backward pass",
    "error": "error, backward",
    "scratch": "scratch",
}
STYLE = (
    "text{font:11px sans-serif;fill:#222}"
    ".title{font-size:14px;font-weight:bold}"
    ".label{font-size:10px;pointer-events:none}"
    ".tick{fill:#555}.grid{stroke:#ddd}"
    ".piece{stroke:#fff;stroke-width:.6}.piece:hover{stroke:#000}"
    ".live{fill:none;stroke:#222;stroke-width:1.2;pointer-events:none}"
    ".bound{stroke:#b00020;stroke-dasharray:5 3}"
    ".peak{stroke:#b00020;stroke-width:1;stroke-dasharray:2 2}"
    ".phase{stroke:#888;stroke-dasharray:1 3}"
)


def render_svg(memory: MemoryMap, title: str) -> str:
    """The map as an SVG document, with a newline at the end.

    Args:
        memory: what to draw.
        title: heading, any text.
    """
    drawing = _Drawing(memory)
    arena = f"arena {memory.arena_bytes:,} bytes, lower bound {memory.lower_bound_bytes:,}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<title>{xml_text(title)}: {arena}</title>",
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text class="title" x="{LEFT}" y="20">{xml_text(title)}</text>',
        f'<text x="{WIDTH - RIGHT}" y="20" text-anchor="end">{arena}</text>',
        *_legend(),
        *drawing.address_axis(),
        *(line for piece in memory.pieces for line in drawing.piece(piece)),
        *drawing.time_axis(),
        *drawing.lines(),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _legend() -> Iterator[str]:
    x = float(LEFT)
    for kind in KINDS:
        yield f'<rect x="{x:.1f}" y="33" width="11" height="11" fill="{FILL[kind]}"/>'
        yield f'<text x="{x + 15:.1f}" y="43">{LEGEND[kind]}</text>'
        x += 15 + 6.2 * len(LEGEND[kind]) + 16
    yield f'<line class="live" x1="{x:.1f}" y1="39" x2="{x + 18:.1f}" y2="39"/>'
    yield f'<text x="{x + 22:.1f}" y="43">live bytes</text>'


class _Drawing:
    """Scales, and what is drawn by them."""

    def __init__(self, memory: MemoryMap) -> None:
        self.memory = memory
        self.steps = max(1, len(memory.steps))
        self.bytes = max(1, memory.arena_bytes)

    def x(self, time: float) -> float:
        """Pixel of a time."""
        return LEFT + (WIDTH - LEFT - RIGHT) * time / self.steps

    def y(self, address: float) -> float:
        """Pixel of an address; 0 is at the bottom."""
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * address / self.bytes

    def piece(self, piece: Piece) -> Iterator[str]:
        """A rectangle with its tooltip, and its name where there is room."""
        left, right = self.x(piece.start), self.x(min(piece.end, self.steps))
        top, bottom = self.y(piece.offset_bytes + piece.nbytes), self.y(piece.offset_bytes)
        told = (
            f"{piece.name}\n{piece.kind}, {piece.nbytes:,} bytes at {piece.offset_bytes:,}\n"
            f"from {piece.made_by or 'the caller'} to {piece.last_used_by or 'nobody'}"
        )
        yield (
            f'<rect class="piece" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
            f'height="{bottom - top:.1f}" fill="{FILL[piece.kind]}">'
            f"<title>{xml_text(told)}</title></rect>"
        )
        width, height = right - left, bottom - top
        name = piece.names[0]
        if height >= 11 and width >= 11 and max(width, height) >= 24:
            upright = width >= min(height, 6 + GLYPH * len(name))
            room = int(((width if upright else height) - 6) / GLYPH)
            shown = name if len(name) <= room else name[: room - 1] + "…"
            if upright:
                place = f'x="{left + 3:.1f}" y="{(top + bottom) / 2 + 3.5:.1f}"'
            else:
                place = (
                    f'transform="rotate(-90)" x="{3 - bottom:.1f}" '
                    f'y="{(left + right) / 2 + 3.5:.1f}"'
                )
            yield f'<text class="label" {place}>{xml_text(shown)}</text>'

    def address_axis(self) -> Iterator[str]:
        """Grid lines with bytes in KB (1,024)."""
        step = _nice(self.bytes / 1024 / 6)
        mark = 0.0
        while mark * 1024 <= self.bytes:
            y = self.y(mark * 1024)
            yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
            yield (
                f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                f"{mark:g} KB</text>"
            )
            mark += step
        middle = (TOP + HEIGHT - BOTTOM) / 2
        yield (
            f'<text class="tick" transform="rotate(-90)" x="{-middle:.1f}" y="16" '
            'text-anchor="middle">address in the arena</text>'
        )

    def time_axis(self) -> Iterator[str]:
        """A cell an operator, to be pointed at, with the phases' names beneath."""
        base = HEIGHT - BOTTOM + 4
        most = max((s.live_bytes for s in self.memory.steps), default=0) or 1
        for time, step in enumerate(self.memory.steps):
            shade = 235 - round(150 * step.live_bytes / most)
            told = f"{time}: {step.op}\n{step.live_bytes:,} bytes live"
            yield (
                f'<rect x="{self.x(time):.1f}" y="{base}" '
                f'width="{self.x(time + 1) - self.x(time):.1f}" height="10" '
                f'fill="rgb({shade},{shade},{shade})"><title>{xml_text(told)}</title></rect>'
            )
        every = max(1, round(_nice(self.steps / 12)))
        for time in range(0, self.steps, every):
            yield (
                f'<text class="tick" x="{self.x(time + 0.5):.1f}" y="{base + 23}" '
                f'text-anchor="middle">{time}</text>'
            )
        start = 0
        for phase, members in groupby(self.memory.steps, key=lambda s: s.phase):
            end = start + sum(1 for _ in members)
            x = self.x(start)
            yield f'<line class="phase" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{base + 44}"/>'
            yield f'<text x="{x + 4:.1f}" y="{base + 42}">{phase.value}</text>'
            start = end
        yield (
            f'<text class="tick" x="{WIDTH - RIGHT}" y="{base + 42}" '
            'text-anchor="end">operators in the order in which they run</text>'
        )

    def lines(self) -> Iterator[str]:
        """Live bytes over time, the lower bound, and where the peak is."""
        memory = self.memory
        if not memory.steps:
            return
        points: list[str] = []
        for time, step in enumerate(memory.steps):
            y = self.y(step.live_bytes)
            points += [f"{self.x(time):.1f},{y:.1f}", f"{self.x(time + 1):.1f},{y:.1f}"]
        yield f'<polyline class="live" points="{" ".join(points)}"/>'
        bound = self.y(memory.lower_bound_bytes)
        yield (
            f'<line class="bound" x1="{LEFT}" y1="{bound:.1f}" x2="{WIDTH - RIGHT}" '
            f'y2="{bound:.1f}"/>'
        )
        x = self.x(memory.peak + 0.5)
        base = HEIGHT - BOTTOM
        yield f'<line class="peak" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{base}"/>'
        anchor = "start" if memory.peak < self.steps / 2 else "end"
        yield (
            f'<text x="{x:.1f}" y="{TOP - 8}" text-anchor="{anchor}">peak: '
            f"{xml_text(memory.steps[memory.peak].op)}</text>"
        )


def _nice(value: float) -> float:
    """The next round number: a quarter, a half, or 1, 2 or 5 times a power of ten."""
    for step in (0.25, 0.5):
        if step >= value:
            return step
    power = 1.0
    while True:
        for factor in (1, 2, 5):
            if power * factor >= value:
                return power * factor
        power *= 10


def xml_text(text: str) -> str:
    """Text between tags of XML or HTML; characters that XML cannot hold become question marks."""
    allowed = "".join(
        c if c in "\n\t" or (c.isprintable() and not "\ud800" <= c <= "\udfff") else "?"
        for c in text
    )
    return escape(allowed)
