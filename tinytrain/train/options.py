"""What the user may choose about training, apart from the scheme.

In: nothing. Out: `TrainOptions`, checked. Must not know graphs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tinytrain.errors import UsageError
from tinytrain.ops.optimizer import VELOCITY_STATES as VELOCITY_STATES
from tinytrain.ops.optimizer import Optimizer

LOSSES = ("cross-entropy", "binary-cross-entropy", "mse")
WEIGHT_STATES = ("int8", "int16", "float32")
ROUNDINGS = ("stochastic", "nearest")
MAX_BATCH = 256
MAX_MOMENTUM = 0.99


@dataclass(frozen=True)
class TrainOptions:
    """Options of a training graph.

    Attributes:
        classes: number of classes of a fresh classifier; None keeps the model's own. With binary
            cross-entropy it has one logit, and the number is 2.
        loss: "cross-entropy", "binary-cross-entropy" (two classes, one logit) or "mse".
        weight_state: "int8" | "int16" | "float32", how a trained weight is kept.
        rounding: "stochastic" | "nearest", of errors and of what goes into weights, biases and
            velocities.
        batch: samples whose gradients are accumulated before a step; 1 updates at once.
        normalize: step rule; True divides by the mean square of the layer's input (rho =
            1 / mean(x^2)), False is plain quantization-aware scaling (rho = 1).
        tau: largest step of a weight tensor relative to its norm, and of a bias relative to the
            range of its layer's output, a sample; a batch of N may step N times as far. That of
            weights shrinks with rates below 0.01. 0 for no bound. Momentum m lets a step of one
            sample go on in later ones: each is kept within 1 - m of this.
        momentum: share of the last step's velocity that is taken again, in [0, 1).
        momentum_state: "int8" | "int16", how the velocity of a weight is kept.
        weight_decay: rate * weight_decay of each trained weight is taken off it at every step.
        label_smoothing: in [0, 1), not with mse.
        seed: of a fresh classifier's weights.
    """

    classes: int | None = None
    loss: str = "cross-entropy"
    weight_state: str = "int16"
    rounding: str = "stochastic"
    batch: int = 1
    normalize: bool = True
    tau: float = 0.002
    momentum: float = 0.0
    momentum_state: str = "int16"
    weight_decay: float = 0.0
    label_smoothing: float = 0.0
    seed: int = 0

    @property
    def labels(self) -> bool:
        """Whether targets are class numbers, values else."""
        return self.loss != "mse"

    @property
    def optimizer(self) -> Optimizer:
        """Momentum and decay."""
        return Optimizer(self.momentum, self.momentum_state, self.weight_decay)

    @property
    def bound(self) -> float:
        """Largest step of one sample before momentum: `tau` of what it adds up to."""
        return self.tau * (1.0 - self.momentum)

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise _bad("loss", self.loss, f"one of {', '.join(LOSSES)}")
        if self.weight_state not in WEIGHT_STATES:
            raise _bad("weight state", self.weight_state, f"one of {', '.join(WEIGHT_STATES)}")
        if self.rounding not in ROUNDINGS:
            raise _bad("rounding", self.rounding, f"one of {', '.join(ROUNDINGS)}")
        if self.classes is not None and not 2 <= self.classes <= 4096:
            raise _bad("number of classes", self.classes, "2 to 4096")
        if not 1 <= self.batch <= MAX_BATCH:
            raise _bad("batch", self.batch, f"1 to {MAX_BATCH}")
        if not (math.isfinite(self.tau) and self.tau >= 0):
            raise _bad("tau", self.tau, "a number >= 0")
        if not 0 <= self.momentum <= MAX_MOMENTUM:
            raise _bad("momentum", self.momentum, f"in [0, {MAX_MOMENTUM}]")
        if self.momentum_state not in VELOCITY_STATES:
            raise _bad("momentum state", self.momentum_state, "int8 or int16")
        if not 0 <= self.weight_decay <= 1:
            raise _bad("weight decay", self.weight_decay, "in [0, 1]")
        if not 0 <= self.label_smoothing < 1:
            raise _bad("label smoothing", self.label_smoothing, "in [0, 1)")
        if self.loss == "binary-cross-entropy" and self.classes not in (None, 2):
            raise _bad("number of classes", self.classes, "2, as binary cross-entropy needs")
        if self.classes is not None and self.loss == "mse":
            raise UsageError(
                "classes-with-mse",
                "train",
                "a fresh classifier goes with the cross-entropy loss",
                hint="leave out the number of classes, or choose the loss cross-entropy",
            )


@dataclass(frozen=True)
class RunOptions:
    """How a training run goes.

    Attributes:
        epochs: passes over the training samples.
        learning_rate: largest rate.
        schedule: "cosine" or "constant".
        warmup: fraction of the steps over which the rate rises.
        seed: of the order of samples and of stochastic rounding.
    """

    epochs: int = 10
    learning_rate: float = 0.01
    schedule: str = "cosine"
    warmup: float = 0.0
    seed: int = 0


def _bad(what: str, value: object, wanted: str) -> UsageError:
    return UsageError("bad-option", "train", f"{what} {value!r} is not {wanted}")
