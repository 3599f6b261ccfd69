"""What went wrong in a training run, and what to change: from its losses, and its statistics.

In: losses, numbers. Out: sentences. Must not know how a run is done.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

ENOUGH_STEPS = 50
SATURATED = 0.05
STILL = 1e-4
AT_BOUND = 0.2


def diagnose(losses: npt.NDArray[np.float32], classes: int | None, rate: float) -> list[str]:
    """Sentences about losses; none is good.

    Args:
        losses: of each step.
        classes: of a cross-entropy; None for the mean squared error.
        rate: largest learning rate.
    """
    if not np.all(np.isfinite(losses)):
        step = int(np.argmin(np.isfinite(losses)))
        return [
            f"the loss is not finite from step {step} on: choose a smaller --lr than {rate:g},"
            " and keep --tau above 0"
        ]
    if len(losses) < ENOUGH_STEPS:
        return []
    part = max(10, len(losses) // 10)
    first, last = float(np.mean(losses[:part])), float(np.mean(losses[-part:]))
    chance = math.log(classes) if classes else None
    if last > 1.2 * first and (chance is None or last > 1.05 * chance):
        return [
            f"the loss rose from {first:.3g} to {last:.3g}: choose a smaller --lr than {rate:g} or"
            " a smaller --tau"
        ]
    if chance is not None and last > 0.97 * chance:
        return [
            f"the loss ended at {last:.3g}, chance is {chance:.3g}: it has learned nothing. Train"
            " more layers or longer, or try a larger --lr; check that the labels belong to the"
            " samples"
        ]
    if last > 0.98 * first and last > 1e-3:
        return [
            f"the loss stayed at {last:.3g}: try a larger --lr than {rate:g}, more layers, or more"
            " epochs"
        ]
    return []


def diagnose_tensors(
    saturated: dict[str, float], changed: dict[str, float], at_bound: dict[str, float]
) -> list[str]:
    """Sentences about statistics: fractions by tensor name."""
    found = []
    high = [name for name, value in saturated.items() if value > SATURATED]
    if high:
        found.append(
            f"more than {SATURATED:.0%} of the errors are saturated in {_some(high)}: calibrate on"
            " samples like those of training, or choose a smaller --lr"
        )
    still = [name for name, value in changed.items() if value < STILL]
    if still:
        found.append(
            f"hardly a weight changes in {_some(still)}: choose a larger --lr or --tau, or the"
            " weight state int16"
        )
    full = [name for name, value in at_bound.items() if value > AT_BOUND]
    if full:
        found.append(
            f"more than {AT_BOUND:.0%} of the weights are at their bound in {_some(full)}: choose a"
            " smaller --lr"
        )
    return found


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
