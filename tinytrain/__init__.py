"""tinytrain: neural networks that go on learning on a microcontroller.

    import tinytrain
    graph = tinytrain.read("model.tflite")
    training = tinytrain.Training(Path("model.tflite"), "bias:all")
    prepared = tinytrain.plan(training)                      # training graph and memory plan
    files = tinytrain.generate(prepared, boards=(board,))    # path -> bytes
    run = tinytrain.start_run(training, Path("data.npz"), tinytrain.RunOptions())
    result = tinytrain.simulate(run)

The names are those of `tinytrain.pipeline`, loaded at first use so that the rooms below can be
imported without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinytrain.boards import get_board
    from tinytrain.pipeline import RunOptions, Training, emulate, fit, generate, simulate, start_run
    from tinytrain.pipeline import prepare as plan
    from tinytrain.reader import read
    from tinytrain.train import TrainOptions

__all__ = [
    "RunOptions",
    "TrainOptions",
    "Training",
    "emulate",
    "fit",
    "generate",
    "get_board",
    "plan",
    "read",
    "simulate",
    "start_run",
]

_HOMES = {
    "TrainOptions": ("tinytrain.train", "TrainOptions"),
    "get_board": ("tinytrain.boards", "get_board"),
    "plan": ("tinytrain.pipeline", "prepare"),
    "read": ("tinytrain.reader", "read"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES.get(name, ("tinytrain.pipeline", name))
    return getattr(import_module(module), attribute)
