"""Measure what a training step takes on an emulated board: one line a model, scheme, weight state.

    python scripts/measure_memory.py --zoo ../shared/zoo [--board mps2-an500] [--steps 4] [NAME ...]

`sram` is .data + .bss + deepest stack, seen in QEMU; `arena` and `state` are in it. Instructions
are exact, cycles are not modelled.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tinytrain.boards import get_board
from tinytrain.pipeline import RunOptions, Training, emulate, start_run
from tinytrain.train import TrainOptions

TASK = "mcunet_signs"
SCHEMES = Path(__file__).resolve().parent.parent / "tests" / "schemes"


@dataclass(frozen=True)
class Case:
    """A model and a scheme, either a preset or a file of `tests/schemes/`."""

    model: str
    scheme: str

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return Path(self.scheme).stem

    @property
    def scheme_text(self) -> str:
        """As the command line takes it."""
        return (
            str(SCHEMES / self.scheme) if self.scheme.endswith((".toml", ".json")) else self.scheme
        )


SIZES = {"mcunet-5fps": (49, 74, 99, 124, 148), "mbv2-w0.35": (49, 73, 99, 123, 138)}
CASES = tuple(Case(m, f"{m}-{size}kb.json") for m, sizes in SIZES.items() for size in sizes)


def measure(case: Case, state: str, args: argparse.Namespace) -> str:
    """Train some steps in QEMU; a row of the table."""
    options = TrainOptions(classes=10, weight_state=state)
    model = args.zoo / "models" / f"{case.model}.tflite"
    training = Training(model, case.scheme_text, options)
    run = start_run(training, args.zoo / "tasks" / f"{TASK}.npz", RunOptions(), args.steps)
    data = replace(run.data, x_test=run.data.x_test[:1], y_test=run.data.y_test[:1])
    plan = run.prepared.plan
    with tempfile.TemporaryDirectory(prefix="tinytrain-") as scratch:
        seen = emulate(replace(run, data=data), get_board(args.board), Path(scratch) / "project")
    sram = seen.data_bss_bytes + seen.stack_bytes
    cells = [case.name, state, plan.arena_bytes, plan.lower_bound_bytes, plan.state.state_bytes]
    cells += [seen.data_bss_bytes, seen.stack_bytes, sram, seen.flash_bytes]
    cells += [seen.instructions_infer, seen.instructions_train_step]
    return "| " + " | ".join(c if isinstance(c, str) else f"{c:,}" for c in cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--zoo", type=Path, required=True, help="folder of models and tasks")
    parser.add_argument("--board", default="mps2-an500")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--state", action="append", choices=["int8", "int16", "float32"])
    parser.add_argument("names", nargs="*", help="cases, all unless given")
    args = parser.parse_args()
    heads = "case|weight state|arena|lower bound|state|.data + .bss|stack|sram|flash"
    heads += "|instructions, inference|instructions, step"
    print("| " + " | ".join(heads.split("|")) + " |\n|" + "---|" * len(heads.split("|")))
    for case in CASES:
        if not args.names or case.name in args.names:
            for state in args.state or ("int8", "int16"):
                print(measure(case, state, args), flush=True)


if __name__ == "__main__":
    main()
