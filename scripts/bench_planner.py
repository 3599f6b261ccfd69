"""Judge the planner: every model and scheme of a zoo, and random training graphs.

    python scripts/bench_planner.py [--zoo ../shared/zoo] [--random 200] [--exact SECONDS]

For each plan: arena, proven lower bound, the gap between them, and processor seconds from the
model's graph to the plan. For random graphs: the mean of arena over proven bound.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.random_plans import random_training_graph
from tinytrain.errors import TinytrainError
from tinytrain.memory import plan
from tinytrain.pipeline import Training, prepare_graph
from tinytrain.reader import read
from tinytrain.train import TrainOptions

SCHEMES = Path(__file__).resolve().parent.parent / "tests" / "schemes"
PRESETS = ("head", "bias:4", "bias:all", "last:2", "full")


def _schemes(model: str) -> Iterator[str]:
    yield from PRESETS
    yield from (str(path) for path in sorted(SCHEMES.glob(f"{model}-*.json")))


def _zoo(folder: Path, exact_s: float) -> None:
    heads = ("model", "scheme", "arena", "proven bound", "gap", "processor s")
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for path in sorted((folder / "models").glob("*.tflite")):
        for scheme in _schemes(path.stem):
            cells = [path.stem, Path(scheme).stem, *_row(path, scheme, exact_s)]
            print("| " + " | ".join(cells) + " |", flush=True)


def _row(path: Path, scheme: str, exact_s: float) -> list[str]:
    try:
        model = read(path)
        started = time.process_time()
        made = prepare_graph(model, Training(path, scheme, TrainOptions()), exact_s=exact_s).plan
    except TinytrainError as error:
        return [f"refused: {error.code}", "", "", ""]
    seconds = time.process_time() - started
    numbers = (made.arena_bytes, made.proven_bound_bytes, made.gap_bytes)
    return [*(f"{n:,}" for n in numbers), f"{seconds:.2f}"]


def _random(count: int, exact_s: float) -> None:
    ratios = []
    for seed in range(count):
        made = plan(random_training_graph(seed), time_limit_s=exact_s)
        ratios.append(made.arena_bytes / max(made.proven_bound_bytes, 1))
    mean, above = sum(ratios) / count, sum(ratio > 1 for ratio in ratios)
    print(
        f"{count} random graphs: mean ratio {mean:.5f}, largest {max(ratios):.4f}, {above} above 1"
    )


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--zoo", type=Path, help="folder of models")
    parser.add_argument("--random", type=int, default=200, help="how many random graphs")
    parser.add_argument("--exact", type=float, default=0.0, help="seconds of exact search a plan")
    args = parser.parse_args()
    if args.zoo is not None:
        _zoo(args.zoo, args.exact)
    if args.random > 0:
        _random(args.random, args.exact)


if __name__ == "__main__":
    main()
