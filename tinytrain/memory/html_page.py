"""A plan as one HTML page: sizes against the board, the map, the peak, what to give up, tensors.

In: a memory map, and sizes and savings as plain data. Out: HTML text that refers to nothing outside
of itself and runs no script, the same for the same data. Must not know files, schemes or boards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinytrain.memory.report import MemoryMap, Piece
from tinytrain.memory.svg_map import FILL, render_svg, xml_text

# The page's classes are none of the drawing's: a style in an SVG holds for the whole page.
STYLE = """
body{font:14px/1.45 sans-serif;color:#222;background:#fff;max-width:1100px;margin:24px auto;
padding:0 12px}
h1{font-size:20px}h2{font-size:16px;margin:28px 0 6px}
.map{overflow-x:auto}
.scroll{max-height:420px;overflow:auto;border:1px solid #ddd}
table{border-collapse:collapse}
th,td{padding:2px 10px;text-align:left;border-bottom:1px solid #eee;vertical-align:top;
overflow-wrap:anywhere}
th{position:sticky;top:0;background:#f4f4f4;white-space:nowrap}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.k{white-space:nowrap}
.key{display:inline-block;width:10px;height:10px;margin-right:6px}
.bar{position:relative;display:flex;height:22px;background:#eee;margin:2px 0}
.bar i{display:block;height:100%}
.bar b{position:absolute;top:-3px;bottom:-3px;width:2px;background:#b00020}
.over{color:#b00020;font-weight:bold}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
COLOURS = ("#35618f", "#5b93c7", "#93bfe0", "#8a8f98", "#c3c7cd")  # none of the drawing's


@dataclass(frozen=True)
class Bar:
    """What takes a memory of the board.

    Attributes:
        name: of the memory.
        parts: (name, bytes), at most five.
        limit_bytes: the memory's size.
    """

    name: str
    parts: tuple[tuple[str, int], ...]
    limit_bytes: int

    @property
    def used_bytes(self) -> int:
        """All parts together."""
        return sum(nbytes for _, nbytes in self.parts)


@dataclass(frozen=True)
class Saving:
    """What may be given up, and the bytes of SRAM, of the arena and of states without it."""

    what: str
    saved_bytes: int
    saved_arena_bytes: int
    saved_state_bytes: int


def render_html(
    memory: MemoryMap, title: str, bars: Sequence[Bar], savings: Sequence[Saving]
) -> str:
    """The page, with a newline at the end.

    Args:
        memory: the plan over the schedule.
        title: heading, any text.
        bars: sizes against the board.
        savings: what may be given up, in the order to show it.
    """
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{xml_text(title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        f"<h1>{xml_text(title)}</h1>",
        "<h2>Sizes against the board</h2>",
        *(line for bar in bars for line in _bar(bar)),
        "<h2>The arena over a training step</h2>",
        "<p>Point at a rectangle to see what it holds, for how long, and who made it.</p>",
        f'<div class="map">\n{render_svg(memory, title)}</div>',
        *_peak(memory),
        *_savings(savings),
        *_tensors(memory),
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def _bar(bar: Bar) -> Iterator[str]:
    """A bar of all parts, a mark at the limit, and the parts by name."""
    used, limit = bar.used_bytes, bar.limit_bytes
    whole = max(1, used, limit)
    verdict = (
        f'<span class="over">{used - limit:,} bytes too many</span>'
        if used > limit
        else f"{limit - used:,} bytes free"
    )
    yield f"<p>{xml_text(bar.name)}: {used:,} of {limit:,} bytes, {verdict}</p>"
    yield '<div class="bar">'
    coloured = list(zip(bar.parts, COLOURS, strict=False))
    for (_, nbytes), colour in coloured:
        yield f'<i style="width:{100 * nbytes / whole:.2f}%;background:{colour}"></i>'
    yield f'<b style="left:{100 * limit / whole:.2f}%"></b>'
    yield "</div>"
    names = (f"{_key(colour)}{xml_text(name)} {nbytes:,}" for (name, nbytes), colour in coloured)
    yield f"<p>{' &nbsp; '.join(names)}</p>"


def _peak(memory: MemoryMap) -> Iterator[str]:
    yield "<h2>What holds the peak</h2>"
    if not memory.steps:
        yield "<p>There are no operators.</p>"
        return
    peak = memory.steps[memory.peak]
    yield (
        f"<p>{peak.live_bytes:,} bytes are live at {xml_text(peak.op)} ({peak.phase.value}); "
        "the last column says by how much the peak would sink if a tensor alone were gone.</p>"
    )
    rows = [
        [*_piece(memory, holder.piece), _number(holder.saving_bytes)] for holder in memory.holders
    ]
    yield from _table((*PIECE_HEADS, "saves"), rows)
    freed = ", ".join(xml_text(piece.name) for piece in memory.frees_next)
    if freed:
        yield f"<p>Freed first: {freed}</p>"


def _savings(savings: Sequence[Saving]) -> Iterator[str]:
    yield "<h2>What giving up would save</h2>"
    if not savings:
        yield "<p>Nothing but the head is trained: there is nothing to give up.</p>"
        return
    yield (
        "<p>Bytes, from a plan of the smaller scheme each. A negative number says that the smaller "
        "scheme takes more there. <code>tinytrain search</code> says what accuracy it costs.</p>"
    )
    rows = [
        [
            _cell(saving.what),
            _number(saving.saved_bytes),
            _number(saving.saved_arena_bytes),
            _number(saving.saved_state_bytes),
        ]
        for saving in savings
    ]
    yield from _table(("without", "SRAM", "of it arena", "of it states and buffers"), rows)


def _tensors(memory: MemoryMap) -> Iterator[str]:
    yield f"<h2>All {len(memory.pieces)} pieces of the arena</h2>"
    yield '<div class="scroll">'
    yield from _table(PIECE_HEADS, [_piece(memory, piece) for piece in memory.pieces])
    yield "</div>"


PIECE_HEADS = ("kind", "what", "bytes", "at", "steps", "from", "to")


def _piece(memory: MemoryMap, piece: Piece) -> list[str]:
    """The cells of a piece; steps are the first and the last operator, counted from 0."""
    last = max(piece.start, min(piece.end, len(memory.steps)) - 1)
    return [
        f'<td class="k">{_key(FILL[piece.kind])}{piece.kind}</td>',
        _cell(piece.name),
        _number(piece.nbytes),
        _number(piece.offset_bytes),
        f'<td class="n">{piece.start} – {last}</td>',
        _cell(piece.made_by or "the caller"),
        _cell(piece.last_used_by or "nobody"),
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of cells that are HTML already."""
    yield "<table>"
    yield f"<tr>{''.join(f'<th>{xml_text(head)}</th>' for head in heads)}</tr>"
    for row in rows:
        yield f"<tr>{''.join(row)}</tr>"
    yield "</table>"


def _cell(text: str) -> str:
    return f"<td>{xml_text(text)}</td>"


def _number(value: int) -> str:
    return f'<td class="n">{value:,}</td>'


def _key(colour: str) -> str:
    return f'<span class="key" style="background:{colour}"></span>'
