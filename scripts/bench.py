"""Count instructions and bytes of the models at hand, as firmware in QEMU; the simulator's speed.

The demonstration's model is always there; the models of the zoo are taken from $TINYTRAIN_ZOO, or
from `shared/zoo` beside the repository. Instructions are exact and the same on every machine;
cycles are not modelled.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinytrain.bench.speed import Speed, compare_speed
from tinytrain.boards import get_board
from tinytrain.demo import data as digits
from tinytrain.errors import TinytrainError
from tinytrain.pipeline import RunOptions, Training, emulate, fit, start_run
from tinytrain.reader import read
from tinytrain.reader.dataset import Dataset, dataset_from_arrays
from tinytrain.train import TrainOptions

ROOT = Path(__file__).resolve().parent.parent
BOARDS = ("mps2-an386", "mps2-an500")


@dataclass(frozen=True)
class Case:
    """A model, what is trained of it, and its data."""

    name: str
    model: Path
    scheme: str
    data: Path | Dataset
    classes: int | None = None


def cases() -> list[Case]:
    """What can be measured here."""
    found = [Case("digits", digits.MODEL_PATH, "full", _digits())]
    zoo = Path(os.environ.get("TINYTRAIN_ZOO", ROOT.parent / "shared" / "zoo"))
    models, tasks = zoo / "models", zoo / "tasks"
    more = [
        ("kws", "mlperf_kws_ref_model", "last:5", "kws_digits", 10),
        ("resnet8", "mlperf_pretrainedResnet_quant", "bias:all", "resnet8_blur", None),
        ("mcunet", "mcunet-5fps", "bias:20", "mcunet_signs", 2),
    ]
    for name, model, scheme, task, classes in more:
        path, data = models / f"{model}.tflite", tasks / f"{task}.npz"
        if path.is_file() and data.is_file():
            found.append(Case(name, path, scheme, data, classes))
    return found


def host_speed() -> Speed | None:
    """The simulator beside PyTorch, where the zoo and PyTorch are there."""
    zoo = Path(os.environ.get("TINYTRAIN_ZOO", ROOT.parent / "shared" / "zoo"))
    try:
        return compare_speed(zoo)
    except TinytrainError as error:
        print(f"the simulator beside PyTorch is left out: {error.message}", file=sys.stderr)
        return None


def _digits() -> Dataset:
    graph = read(digits.MODEL_PATH)
    return dataset_from_arrays(digits.load(), graph[graph.inputs[0]], classes=10)


def measure(case: Case, board_name: str, steps: int) -> dict[str, Any]:
    """One row: the case, the board, and what was counted."""
    board = get_board(board_name)
    training = Training(case.model, case.scheme, TrainOptions(classes=case.classes))
    run = start_run(training, case.data, RunOptions(), steps)
    sizes = fit(run.prepared, board)
    with tempfile.TemporaryDirectory(prefix="tinytrain-") as folder:
        result = emulate(run, board, Path(folder) / "project")
    return {
        "case": case.name,
        "scheme": case.scheme,
        "board": board_name,
        "infer": result.instructions_infer,
        "train_step": result.instructions_train_step,
        "arena_bytes": sizes.arena_bytes,
        "lower_bound_bytes": sizes.lower_bound_bytes,
        "data_bss_bytes": result.data_bss_bytes,
        "stack_bytes": result.stack_bytes,
        "flash_bytes": result.flash_bytes,
        "macs_forward": sizes.macs_forward,
        "macs_backward": sizes.macs_backward,
    }


def main() -> int:
    """Measure and print, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3, help="training steps, default: 3")
    parser.add_argument("--only", metavar="CASE", help="measure this case only")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for case in cases():
        if options.only not in (None, case.name):
            continue
        for board in BOARDS:
            row = measure(case, board, options.steps)
            if not options.json:
                if not rows:
                    print("  ".join(f"{name:>17}" for name in row))
                texts = (f"{v:,}" if isinstance(v, int) else v for v in row.values())
                print("  ".join(f"{text:>17}" for text in texts), flush=True)
            rows.append(row)
    speed = host_speed() if options.only in (None, "speed") else None
    if options.json:
        print(json.dumps({"rows": rows, "speed": speed and vars(speed)}, indent=2))
    elif speed is not None:
        print(
            f"keyword spotting, all layers, one thread: simulator {speed.simulator:,.0f} steps a"
            f" second, PyTorch {speed.torch:,.0f}: {speed.ratio:.2f} times as fast"
        )
    if speed is not None:
        return 0
    if not rows:
        print(f"no case is called {options.only!r}", file=sys.stderr)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
