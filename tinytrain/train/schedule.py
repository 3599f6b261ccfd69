"""Which sample comes when, and at which learning rate: both are the caller's, not the device's.

In: counts, a seed, a base rate. Out: plain arrays. Must not know graphs or targets.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinytrain.errors import UsageError

SCHEDULES = ("cosine", "constant")
MAX_STEPS = 100_000_000


def sample_order(samples: int, epochs: int, batch: int, seed: int) -> npt.NDArray[np.int32]:
    """Indices of all steps: a fresh permutation an epoch, cut to whole batches.

    Returns:
        int32 [n], n a multiple of `batch`.

    Raises:
        UsageError: there are fewer samples than one batch takes, or more steps than MAX_STEPS.
    """
    if samples * epochs > MAX_STEPS:
        raise UsageError(
            "too-many-steps",
            "train",
            f"{samples} samples in {epochs} epochs are more than {MAX_STEPS:,} steps",
            hint="choose fewer epochs or steps",
        )
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(samples) for _ in range(epochs)])
    whole = len(order) // batch * batch
    if whole == 0:
        raise UsageError(
            "batch-too-large",
            "train",
            f"a batch of {batch} needs more than {samples} samples in {epochs} epochs",
            hint="choose a smaller batch or more epochs",
        )
    chosen: npt.NDArray[np.int32] = order[:whole].astype(np.int32)
    return chosen


def learning_rates(
    base: float, steps: int, schedule: str, warmup: float = 0.0
) -> npt.NDArray[np.float32]:
    """The rate of each step.

    Args:
        base: largest rate.
        schedule: "cosine" falls to 0 at the last step; "constant" stays.
        warmup: fraction of the steps over which the rate rises linearly from 0.
    """
    if schedule not in SCHEDULES:
        raise UsageError("bad-option", "train", f"schedule {schedule!r} is not one of {SCHEDULES}")
    done = np.arange(steps) / max(steps, 1)
    factor = np.ones(steps) if schedule == "constant" else 0.5 * (1 + np.cos(np.pi * done))
    if warmup > 0:
        factor = factor * np.minimum(1.0, (np.arange(steps) + 1) / (warmup * steps))
    rates: npt.NDArray[np.float32] = (base * factor).astype(np.float32)
    return rates
