"""The step that a weight tensor takes: bound, rounding, the three weight states, batches.

In: an exact integer gradient and the scale of its unit. Out: new weights. Used by the update
operators of convolutions; `firmware/` mirrors it in `tt_update.h`. Source: DESIGN section 2
(quantization-aware scaling, after MCUNetV3; bounded step).

A bound state is float32[2]: a peak-following mean of the squared norm of the step at rate 1 and at
a first error of unit 1, and the squared norm of the weights, both in weight units. The norm is that
of earlier steps, so that an update needs no gradient tensor; in the very first step it is only
measured. Relative to the sample's first error it hardly differs between samples, while the error of
a misclassified sample is hundreds of times that of one already learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinytrain.ir import Array, Attr, Graph, Op, Phase
from tinytrain.numeric import random
from tinytrain.numeric.error_scale import DELTA_FRACTION_BITS, DELTA_MAX, weight_delta
from tinytrain.ops.base import GradBuilder, KernelCall, OpDef, Param, Step, Trained

F32 = np.float32
WEIGHT_MAX = 127
ONE = F32(1.0)
NORM_DECAY = F32(0.125)
FULL_TAU_RATE = F32(0.01)
MEASURABLE_SQUARES = 1 << 20  # of Q16 deltas: below, rounding decides the norm of a small step
STATES = {"int8": "TT_STATE_INT8", "int16": "TT_STATE_INT16", "float32": "TT_STATE_FLOAT32"}


def rate_factors(rho: float, input_scale: float, weight_scales: Array) -> tuple[float, ...]:
    """rho * s_x / s_w[c]^2 for each output channel, as float32 values."""
    factors = rho * input_scale / weight_scales.astype(np.float64) ** 2
    return tuple(float(F32(f)) for f in np.minimum(factors, 1e30))


def update_attrs(
    builder: GradBuilder, trained: Trained, factors: tuple[float, ...], gain: float
) -> dict[str, Attr]:
    """Attributes that every update operator has."""
    return {
        "state": trained.state,
        "factors": factors,
        "gain": gain,
        "tau": trained.tau,
        "stream": builder.stream(),
        "accumulate": bool(trained.accumulator),
        "channels": trained.channels,
    }


def update_operands(trained: Trained) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(inputs, outputs) for the trained tensor: weights, fraction, bound - or the accumulator."""
    if trained.accumulator:
        return (trained.accumulator,), (trained.accumulator,)
    states = (trained.weights, trained.fraction, trained.bound)
    return states, tuple(s for s in states if s)


def emit_apply(builder: GradBuilder, trained: Trained) -> None:
    """With batches, the operator that turns the accumulated deltas into a step."""
    if not trained.accumulator:
        return
    states = (trained.weights, trained.fraction, trained.bound)
    builder.emit_in(
        Phase.APPLY,
        "apply_weights",
        (trained.accumulator, *states),
        (trained.accumulator, *(s for s in states if s)),
        state=trained.state,
        tau=trained.tau,
        batch=trained.batch,
        channels=trained.channels,
        stream=builder.stream(),
    )


def bound_factor(bound: Array, size: np.float32, tau: float) -> np.float32:
    """Factor in (0, 1] that keeps size * norm within tau * norm of the weights.

    Args:
        size: rate times the unit of the sample's first error.
    """
    step2 = F32(F32(size * size) * bound[0])
    # weights that are all zero are bounded as if one of them were one step: they may move again
    limit2 = F32(F32(F32(tau) * F32(tau)) * max(F32(bound[1]), F32(1.0)))
    if tau == 0.0 or step2 <= limit2:
        return F32(1.0)
    return F32(np.sqrt(F32(limit2 / step2)))


def tau_at(tau: float, rate: np.float32) -> float:
    """`tau` at rates from `FULL_TAU_RATE` up, in proportion to the rate below."""
    return float(F32(F32(tau) * F32(rate / FULL_TAU_RATE))) if rate < FULL_TAU_RATE else tau


def next_bound(bound: Array, delta: Array, taken_size: np.float32, weights: Array) -> Array:
    """The bound state after a step whose Q16 deltas were `delta`.

    Args:
        taken_size: rate taken times the unit of the sample's first error; 0: nothing is measured.
    """
    norm2 = F32(bound[0])
    size2 = F32(taken_size * taken_size)
    if size2 > 0:
        seen = F32(_squared_norm(delta) / size2)
        if seen > norm2:
            norm2 = seen
        elif int(np.sum(delta.astype(np.int64) ** 2, dtype=np.uint64)) >= MEASURABLE_SQUARES:
            norm2 = F32(norm2 + F32(F32(seen - norm2) * NORM_DECAY))
    return np.array([norm2, squared_sum(weights)], np.float32)


def squared_sum(values: Array) -> np.float32:
    """Exact sum of squares of integers, rounded once to float32 (not by way of float64)."""
    return F32(np.sum(values.astype(np.int64) ** 2, dtype=np.uint64).astype(np.float32))


def _squared_norm(delta: Array) -> np.float32:
    """Of Q16 deltas, in weight units."""
    return F32(squared_sum(delta) * F32(2.0**-32))


def move(
    weights: Array, fraction: Array | None, delta: Array, state: str, key: int
) -> tuple[Array, Array | None]:
    """Add Q16 deltas to a weight state with stochastic rounding; saturates at +-127.

    Returns:
        (weights int8, fraction); the fraction is None (int8), 256ths of a step, signed, int8
        (int16), or the weight itself (float32).
    """
    flat = delta.reshape(-1)
    if state == "int8":
        noise = random.random_bits(key, flat.size, 16)
        moved = weights.astype(np.int64) + ((flat + noise) >> 16).reshape(delta.shape)
        return np.clip(moved, -WEIGHT_MAX, WEIGHT_MAX).astype(np.int8), None
    assert fraction is not None
    if state == "int16":
        noise = random.random_bits(key, flat.size, 8)
        total = weights.astype(np.int64) * 256 + fraction
        total = total + ((flat + noise) >> 8).reshape(delta.shape)
        total = np.clip(total, -WEIGHT_MAX * 256, WEIGHT_MAX * 256)
        high = (total + 128) >> 8
        return high.astype(np.int8), (total - high * 256).astype(np.int8)
    master = (fraction + delta.astype(np.float32) * F32(2.0**-16)).astype(np.float32)
    master = np.clip(master, F32(-WEIGHT_MAX), F32(WEIGHT_MAX))
    return np.floor(master + F32(0.5)).astype(np.int8), master


def run_update(
    op: Op,
    gradient: Array,
    channel_axis: int,
    unit: np.float32,
    states: Sequence[Array],
    step: Step,
    first: np.float32 = ONE,
) -> tuple[Array, ...]:
    """The update operators' reference.

    Args:
        gradient: exact integer gradient, the shape of the trained weights.
        channel_axis: its output-channel axis.
        unit: real size of a gradient unit before the channel's factor.
        states: current values, in the order of `update_operands`.
        first: real size of a unit of the sample's first error, a factor of `unit`.
    """
    accumulate = bool(op.attrs["accumulate"])
    rate = F32(step.learning_rate)
    taken = rate
    if not accumulate:
        tau = tau_at(op.float("tau"), rate)
        taken = F32(rate * bound_factor(states[-1], F32(rate * first), tau))
    base = F32(taken * unit)
    steps = [F32(base * F32(f)) for f in op.floats("factors")]
    rows = np.moveaxis(gradient, channel_axis, 0)
    delta = np.stack([weight_delta(row, s) for row, s in zip(rows, steps, strict=True)])
    delta = np.moveaxis(delta, 0, channel_axis)
    if accumulate:
        return ((states[0] + delta).astype(np.int32),) if step.apply else (states[0],)
    return _take(op, delta, F32(taken * first), states, step)


def _take(
    op: Op, delta: Array, size: np.float32, states: Sequence[Array], step: Step
) -> tuple[Array, ...]:
    """Move the weights by `delta` unless the step only measures; states as `update_operands`."""
    weights, bound = states[0], states[-1]
    fraction = states[1] if len(states) == 3 else None
    chosen = list(op.ints("channels")) or slice(None)
    old = weights[..., chosen]
    new, new_fraction = old, fraction
    if step.apply and (bound[0] > 0 or op.float("tau") == 0.0):
        new, new_fraction = move(old, fraction, delta, op.str("state"), step.key(op))
    weights = weights.copy()
    weights[..., chosen] = new
    after = next_bound(bound, delta, size, new)
    return (weights, after) if new_fraction is None else (weights, new_fraction, after)


def channel_params(op: Op) -> dict[str, Param]:
    """The trained input channels: a table, or NULL for all."""
    channels = op.ints("channels")
    return {"channels": np.array(channels, np.uint16) if channels else "NULL"}


def update_params(op: Op) -> Mapping[str, Param]:
    """The C fields of `tt_update_rule`."""
    return {
        "factors": np.array(op.floats("factors"), np.float32),
        "gain": op.float("gain"),
        "tau": op.float("tau"),
        "state": STATES[op.str("state")],
        "stream": op.int("stream"),
    }


def update_io(op: Op, first: int) -> Mapping[str, str]:
    """The C fields of `tt_update_io`; `first` is the index of the first state input."""
    names = op.inputs[first:]
    if op.attrs["accumulate"]:
        return {"accumulator": names[0], "weights": "", "fraction": "", "bound": ""}
    return {"accumulator": "", "weights": names[0], "fraction": names[1], "bound": names[2]}


class ApplyWeights(OpDef):
    """End of a batch: take the accumulated step, exactly bounded, and clear the accumulator."""

    kind = "apply_weights"
    trains = True

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """States keep their shapes."""
        return tuple(graph[name].shape for name in op.outputs)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Scale the deltas down where their norm exceeds tau times that of the weights."""
        del graph
        accumulator, *states = inputs
        states = [s for s in states if s is not None]
        delta = np.clip(accumulator.astype(np.int64), -DELTA_MAX, DELTA_MAX)
        tau = tau_at(op.float("tau"), F32(F32(step.learning_rate) * F32(op.int("batch"))))
        measured = np.array([_squared_norm(delta), states[-1][1]], np.float32)
        factor = bound_factor(measured, F32(1.0), tau)
        if factor < 1:
            delta = -weight_delta(delta, F32(factor * F32(2.0**-DELTA_FRACTION_BITS)))
        forced = Step(step.seed, step.index, F32(1.0), step.apply)
        unbounded = Op(op.kind, op.name, op.inputs, op.outputs, {**op.attrs, "tau": 0.0})
        taken = _take(unbounded, delta, F32(0.0), states, forced)
        return (np.zeros_like(accumulator), *taken)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_apply_weights`."""
        weights, accumulator = graph[op.inputs[1]], graph[op.inputs[0]]
        return KernelCall(
            "tt_apply_weights",
            {
                "count": accumulator.size,
                "in_channels": weights.shape[-1],
                "trained_channels": accumulator.shape[-1],
                **channel_params(op),
                "tau": op.float("tau"),
                "batch": op.int("batch"),
                "state": STATES[op.str("state")],
                "stream": op.int("stream"),
            },
            dict(zip(("accumulator", "weights", "fraction", "bound"), op.inputs, strict=True)),
            takes_step=True,
        )
