"""Steps a second of the simulator beside PyTorch: the same network, one sample a step, one thread.

In: the zoo. Out: a ratio. Both take turns in one process, so that whatever else the machine does
falls on both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinytrain.bench.float_net import import_torch
from tinytrain.bench.tasks import TASKS
from tinytrain.pipeline import RunOptions, Training, start_run
from tinytrain.toolchain.simulator import Simulator
from tinytrain.train import TrainOptions

TURNS = 5
STEPS = 400  # a turn


@dataclass(frozen=True)
class Speed:
    """Training steps a second, medians over the turns; `ratio` of the medians."""

    simulator: float
    torch: float

    @property
    def ratio(self) -> float:
        """How many times as fast the simulator is."""
        return self.simulator / self.torch


def compare_speed(zoo: Path) -> Speed:
    """Train keyword spotting (DS-CNN), all layers, in the simulator and in PyTorch.

    Raises:
        InputError: a file of the zoo is missing. ToolError: PyTorch or a C compiler is.
    """
    task = TASKS["kws_digits"]
    model, data = task.files(zoo)
    run = start_run(Training(model, "full", TrainOptions(classes=10)), data, RunOptions(), STEPS)
    simulator = Simulator(run.prepared.files)
    x, y, order = run.data.x_train, run.data.y_train, run.order[:STEPS]

    def ours() -> None:
        simulator.train(x, y, run.rates[: len(order)], order=order)

    theirs = _torch_steps(x, y, order)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn in range(TURNS + 1):
        for name, steps in (("ours", ours), ("theirs", theirs)):
            started = time.process_time()
            steps()
            if turn > 0:  # the first one warms up
                seconds[name].append(time.process_time() - started)
    rates = {name: len(order) / float(np.median(values)) for name, values in seconds.items()}
    return Speed(rates["ours"], rates["theirs"])


def _torch_steps(x: Any, y: Any, order: Any) -> Callable[[], None]:
    """The network of MLPerf Tiny's keyword spotting with plain SGD, as one would write it."""
    torch = import_torch()
    nn = torch.nn
    layers = [nn.ZeroPad2d((1, 1, 4, 5)), nn.Conv2d(1, 64, (10, 4), 2), nn.ReLU()]
    for _ in range(4):
        layers += [
            nn.Conv2d(64, 64, 3, 1, 1, groups=64),
            nn.ReLU(),
            nn.Conv2d(64, 64, 1),
            nn.ReLU(),
        ]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    samples = torch.from_numpy(x.astype(np.float32)).movedim(-1, 1)
    targets = torch.from_numpy(y.astype(np.int64))

    def steps() -> None:
        for index in order:
            optimizer.zero_grad()
            result = net(samples[index : index + 1])
            nn.functional.cross_entropy(result, targets[index : index + 1]).backward()
            optimizer.step()

    return steps
