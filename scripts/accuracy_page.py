"""Write docs/accuracy.md from bench/accuracy.json, which `tinytrain bench accuracy --write` makes.

python scripts/accuracy_page.py > docs/accuracy.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinytrain.bench.accuracy import INT8, INT16
from tinytrain.bench.accuracy_runs import FLOAT32
from tinytrain.bench.tasks import TASKS

ROOT = Path(__file__).resolve().parent.parent
CLOSE = 1.5
Row = Mapping[str, Any]
Cell = tuple[str, str, int]

INTRODUCTION = """\
# Accuracy: int8 training beside float32

Test accuracy in percent, mean and range over the seeds. Each cell trains on the task's few hundred
samples (cosine schedule, default options); the learning rate is chosen on a held-out fifth of the
training samples, in the mean over three splits (five for a head, one for the 600 samples of
kws_digits), for float32 and int8 on their own. The float32 reference is the same network
dequantized, in PyTorch, with the same samples in the same order, the same step rule and bound, and
no quantization anywhere, not even in the layers that are not trained. "int16" and "int8" are the
states of the weights; errors are int8 in both.

The default bound tau was chosen among few values by single runs that looked at the test samples of
these tasks (docs/decisions/005); the learning rates were not.

Everything here ran on a PC, the int8 runs in the host simulator, whose bits are those of the
firmware. This page is made by `scripts/accuracy_page.py` from `bench/accuracy.json`.
"""


def main() -> None:
    """Print the page."""
    document = json.loads((ROOT / "bench" / "accuracy.json").read_text("utf-8"))
    print(INTRODUCTION)
    rows = document.get("rows", [])
    for batch in sorted({row["batch"] for row in rows}):
        print_batch(batch, [row for row in rows if row["batch"] == batch])
    if document.get("rates"):
        print_sweep(document["rates"])


def print_batch(batch: int, rows: Sequence[Row]) -> None:
    """One table of all cells, and what is between int8 and float32."""
    how = "updated at once, no gradient is stored" if batch == 1 else "gradients accumulated"
    print(f"## {batch} sample{'s' if batch > 1 else ''} a step ({how})\n")
    cells: dict[Cell, dict[str, Row]] = {}
    for row in rows:
        cells.setdefault((row["task"], row["scheme"], batch), {})[row["kind"]] = row
    print("| task | scheme | float32 | int16 | int8 | int16 - float32 | int8 - float32 |")
    print("|---|---|---|---|---|---|---|")
    gaps: dict[str, list[float]] = {INT16: [], INT8: []}
    for (task, scheme, _), found in cells.items():
        texts = [text_of(found.get(kind)) for kind in (FLOAT32, INT16, INT8)]
        for kind in (INT16, INT8):
            gap = gap_of(found, kind)
            texts.append("" if gap is None else f"{gap:+.1f}")
            gaps[kind] += [] if gap is None else [gap]
        print(f"| {task} | {scheme} | {' | '.join(texts)} |")
    print()
    for kind, values in gaps.items():
        if values:
            mean = sum(values) / len(values)
            print(
                f"- {kind} less float32: {mean:+.2f} points in the mean over {len(values)} cells,"
                f" {min(values):+.1f} to {max(values):+.1f}."
            )
    for kind in (INT16, INT8):
        behind = [
            f"{task} {scheme} ({gap:+.1f})"
            for (task, scheme, _), found in cells.items()
            if (gap := gap_of(found, kind)) is not None and gap < -CLOSE
        ]
        print(f"- {kind} more than {CLOSE} points behind: {', '.join(behind) or 'none'}.")
    tasks = " ".join(f"--task {name}" for name in dict.fromkeys(cell[0] for cell in cells))
    schemes = " ".join(f"--scheme {name}" for name in dict.fromkeys(cell[1] for cell in cells))
    epochs = ", ".join(f"{n} {TASKS[n].epochs}" for n in dict.fromkeys(cell[0] for cell in cells))
    print(f"\nEpochs: {epochs}.\n")
    print(f"    tinytrain bench accuracy {tasks} {schemes} --batch {batch}\n")


def text_of(row: Row | None) -> str:
    """Mean and range."""
    if row is None:
        return ""
    accuracy = row["accuracy"]
    return f"{accuracy['mean']:.1f} ({accuracy['lowest']:.1f} to {accuracy['highest']:.1f})"


def gap_of(found: Mapping[str, Row], kind: str) -> float | None:
    """Points between a kind and float32."""
    if kind not in found or FLOAT32 not in found:
        return None
    return float(found[kind]["accuracy"]["mean"] - found[FLOAT32]["accuracy"]["mean"])


def print_sweep(rows: Sequence[Row]) -> None:
    """Whether the defaults are safe, and what happens without them."""
    print("## Safety of the defaults\n")
    print(
        "The same at each rate, without choosing one; lowest and mean over the seeds. Plain QAS has"
        " neither the division by the mean square of a layer's input nor the bound on a step.\n"
    )
    print("| task | scheme | rate | default: mean | lowest | plain QAS: mean | lowest |")
    print("|---|---|---|---|---|---|---|")
    by_cell = {(r["task"], r["scheme"], r["rate"], r["plain"]): r["accuracy"] for r in rows}
    for task, scheme, rate, plain in by_cell:
        if plain:
            continue
        values = [by_cell[task, scheme, rate, False], by_cell.get((task, scheme, rate, True))]
        texts = [f"{a['mean']:.1f} | {a['lowest']:.1f}" if a else " | " for a in values]
        print(f"| {task} | {scheme} | {rate:g} | {' | '.join(texts)} |")
    names = " ".join(f"--task {name}" for name in dict.fromkeys(r["task"] for r in rows))
    seeds = len(rows[0]["accuracy"]["values"])
    print(f"\n    tinytrain bench accuracy --sweep {names} --seeds {seeds}")


if __name__ == "__main__":
    main()
