"""Write the tables of docs/kernels.md and docs/mve.md from bench/counts.json; ``--check`` only says
whether they are current. `tinytrain bench kernels --board NAME --write bench/counts.json` counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tinytrain.bench.counts import read_counts
from tinytrain.bench.kernels import LAYERS, BenchLayer, layer_macs

ROOT = Path(__file__).resolve().parent.parent
M4, M7, M55 = "mps2-an386", "mps2-an500", "mps3-an547"
Counts = Mapping[str, int]


def layers_table(counts: Counts) -> list[str]:
    """Instructions a MAC on the M4, in brackets the ratio to the reference."""
    lines = ["| layer | forward | input error | weights |", "|---|---|---|---|"]
    for layer in LAYERS:
        macs = layer_macs(layer)
        cells = []
        for kind in (layer.kind, f"{layer.kind}_input_error", f"{layer.kind}_update"):
            known = kind in macs
            cells.append(f"{counts[key(layer, kind, M4)] / macs[kind]:.2f}" if known else "-")
        if layer.reference:
            ratio = counts[key(layer, layer.kind, M4)] / dict(layer.reference)["cortex-m4"]
            cells[0] += f" ({ratio:.2f})"
        lines.append(f"| {layer.name} | {' | '.join(cells)} |")
    return lines


def vectors_table(counts: Counts) -> list[str]:
    """Instructions of the forward kernels that have a version for vectors, M55 beside M7."""
    lines = ["| layer, forward | Cortex-M7 | Cortex-M55 | ratio | a MAC |", "|---|---|---|---|---|"]
    for layer in LAYERS:
        if layer.kind == "fully_connected":
            continue
        m7, m55 = (counts[key(layer, layer.kind, board)] for board in (M7, M55))
        macs = layer_macs(layer)[layer.kind]
        lines.append(f"| {layer.name} | {m7:,} | {m55:,} | {m55 / m7:.2f} | {m55 / macs:.2f} |")
    return lines


def key(layer: BenchLayer, operator: str, board: str) -> str:
    """Of a count."""
    return f"{layer.name}/{operator}/{board}/board"


TABLES: Mapping[str, tuple[str, Callable[[Counts], list[str]]]] = {
    "docs/kernels.md": ("layers", layers_table),
    "docs/mve.md": ("vectors", vectors_table),
}


def main() -> int:
    """Write, or check."""
    counts = read_counts(ROOT / "bench" / "counts.json")
    stale = []
    for name, (mark, table) in TABLES.items():
        path = ROOT / name
        text = path.read_text("utf-8")
        start = f"<!-- {mark}: scripts/kernels_page.py -->\n"
        fresh = start + "\n".join(table(counts)) + "\n<!-- end -->"
        before, _, rest = text.partition(start)
        _, _, after = rest.partition("<!-- end -->")
        written = before + fresh + after
        if written != text:
            stale.append(name)
        if "--check" not in sys.argv[1:]:
            path.write_text(written, "utf-8")
    for name in stale:
        print(f"{name}: {'is not current' if '--check' in sys.argv[1:] else 'written'}")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
