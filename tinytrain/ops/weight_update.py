"""The step that a weight tensor takes: bound, rounding, the three weight states, batches.

In: an exact integer gradient and the scale of its unit. Out: new weights. Used by the update
operators of convolutions; `firmware/` mirrors it in `tt_update.h`. Source: DESIGN section 2
(quantization-aware scaling, after MCUNetV3; bounded step).

The norm of a step would need the whole gradient before the first weight moves. Its *reach*, the
largest norm that errors and inputs of that size allow by the inequality of Cauchy and Schwarz, is
known at once; of a fully connected layer it is the norm. A bound state is float32[2]: a running
mean of the squared norm of a step over its squared reach, and the squared norm of the weights in
weight units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinytrain.ir import Array, Attr, Graph, Op, Phase
from tinytrain.numeric import random
from tinytrain.numeric.error_scale import (
    DELTA_FRACTION_BITS,
    DELTA_MAX,
    DELTA_MIN,
    weight_delta,
)
from tinytrain.ops import optimizer
from tinytrain.ops.base import GradBuilder, KernelCall, OpDef, Param, Step, Trained

F32 = np.float32
WEIGHT_MAX = 127
ONE = F32(1.0)
SHARE_GAIN = F32(0.125)  # of the newest step in the mean share of its reach
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
        **({} if trained.accumulator else _optimizer_attrs(builder, trained)),
    }


def _optimizer_attrs(builder: GradBuilder, trained: Trained) -> dict[str, Attr]:
    """Of the operator that takes the step; none for plain SGD."""
    if trained.optimizer.plain:
        return {}
    return {
        "momentum": trained.optimizer.momentum_q16,
        "decay": trained.optimizer.decay,
        "wide": trained.optimizer.velocity == "int16",
        "velocity_stream": builder.stream(),
    }


def _states(trained: Trained) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(inputs, outputs): weights, fraction, bound, velocity and its bits."""
    states: tuple[str, ...] = (trained.weights, trained.fraction, trained.bound)
    if trained.velocity:
        states = (*states, trained.velocity, trained.velocity_bits)
    return states, tuple(s for s in states if s)


def update_operands(trained: Trained) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(inputs, outputs) for the trained tensor: its states - or the accumulator."""
    if trained.accumulator:
        return (trained.accumulator,), (trained.accumulator,)
    return _states(trained)


def emit_apply(builder: GradBuilder, trained: Trained) -> None:
    """With batches, the operator that turns the accumulated deltas into a step."""
    if not trained.accumulator:
        return
    states, changed = _states(trained)
    builder.emit_in(
        Phase.APPLY,
        "apply_weights",
        (trained.accumulator, *states),
        (trained.accumulator, *changed),
        state=trained.state,
        tau=trained.tau,
        batch=trained.batch,
        channels=trained.channels,
        stream=builder.stream(),
        **_optimizer_attrs(builder, trained),
    )


@dataclass(frozen=True)
class Gradient:
    """What an update takes its step from.

    Attributes:
        values: exact integer gradient, the shape of the trained weights.
        channel_axis: its output-channel axis.
        relative: size of a gradient unit, before the channel's factor, relative to `first`.
        first: real size of a unit of the sample's first error.
        errors2: int64[output channels], sum of the squares of each channel's folded errors.
        inputs2: sum of the squares of the inputs, zero point taken off.
    """

    values: Array
    channel_axis: int
    relative: np.float32
    first: np.float32
    errors2: Array
    inputs2: int

    @staticmethod
    def of(
        values: Array,
        channel_axis: int,
        scales: tuple[np.float32, np.float32],
        errors: Array,
        inputs: Array,
    ) -> Gradient:
        """From its factors.

        Args:
            scales: `relative` and `first`.
            errors: folded, [positions, output channels].
            inputs: zero point taken off.
        """
        errors2 = np.sum(errors.astype(np.int64) ** 2, axis=0)
        inputs2 = int(np.sum(inputs.astype(np.int64) ** 2))
        return Gradient(values, channel_axis, *scales, errors2, inputs2)

    def reach2(self, factors: Sequence[float]) -> np.float32:
        """Squared norm that no step of one position exceeds, at rate 1 and a first unit of 1."""
        if self.inputs2 == 0:
            return F32(0.0)
        total = F32(0.0)
        with np.errstate(over="ignore"):  # infinite: such a step is not taken
            for factor, square in zip(factors, self.errors2, strict=True):
                if square:
                    unit = F32(self.relative * F32(factor))
                    total = F32(total + F32(F32(unit * unit) * F32(square)))
            return F32(F32(self.inputs2) * total)


def bound_factor(step2: np.float32, weights2: np.float32, tau: float) -> np.float32:
    """Factor in (0, 1] that keeps a step within tau times the norm of the weights.

    Args:
        step2: squared norm of the step, in weight units.
        weights2: squared norm of the weights.
    """
    # weights that are all zero are bounded as if one of them were one step: they may move again
    limit2 = F32(F32(F32(tau) * F32(tau)) * max(F32(weights2), F32(1.0)))
    if tau == 0.0 or step2 <= limit2:
        return F32(1.0)
    return F32(np.sqrt(F32(limit2 / step2)))


def tau_at(tau: float, rate: np.float32) -> float:
    """`tau` at rates from `FULL_TAU_RATE` up, in proportion to the rate below."""
    return float(F32(F32(tau) * F32(rate / FULL_TAU_RATE))) if rate < FULL_TAU_RATE else tau


def next_bound(bound: Array, delta: Array, reach2: np.float32, weights: Array) -> Array:
    """The bound state after a step whose Q16 deltas were `delta`.

    Args:
        reach2: squared reach of the step as taken; 0: nothing is measured.
    """
    share = F32(bound[0])
    squares = np.sum(delta.astype(np.int64) ** 2, dtype=np.uint64)
    if reach2 > 0 and int(squares) >= MEASURABLE_SQUARES:
        seen = F32(F32(squares.astype(np.float32) * F32(2.0**-32)) / reach2)
        share = F32(share + F32(F32(seen - share) * SHARE_GAIN))
    return np.array([share, squared_sum(weights)], np.float32)


def squared_sum(values: Array) -> np.float32:
    """Exact sum of squares of integers, rounded once to float32 (not by way of float64)."""
    return F32(np.sum(values.astype(np.int64) ** 2, dtype=np.uint64).astype(np.float32))


def _squared_norm(delta: Array) -> np.float32:
    """Of Q16 deltas, in weight units."""
    return F32(squared_sum(delta) * F32(2.0**-32))


def move(
    weights: Array, fraction: Array | None, delta: Array, state: str, key: random.Key
) -> tuple[Array, Array | None]:
    """Add Q16 deltas to a weight state rounded by the draws of a stream; saturates at +-127.

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
        step = np.clip(flat + noise, DELTA_MIN, DELTA_MAX) >> 8
        total = total + step.reshape(delta.shape)
        total = np.clip(total, -WEIGHT_MAX * 256, WEIGHT_MAX * 256)
        high = (total + 128) >> 8
        return high.astype(np.int8), (total - high * 256).astype(np.int8)
    master = (fraction + delta.astype(np.float32) * F32(2.0**-16)).astype(np.float32)
    master = np.clip(master, F32(-WEIGHT_MAX), F32(WEIGHT_MAX))
    return np.floor(master + F32(0.5)).astype(np.int8), master


def run_update(
    op: Op, gradient: Gradient, states: Sequence[Array], step: Step
) -> tuple[Array, ...]:
    """The update operators' reference.

    Args:
        states: current values, in the order of `update_operands`.
    """
    accumulate, factors = bool(op.attrs["accumulate"]), op.floats("factors")
    rate = taken = F32(step.learning_rate)
    reach2 = F32(0.0)
    if not accumulate and op.float("tau") > 0.0:
        reach2, bound = gradient.reach2(factors), _bound_of(op, states)
        tau, size = tau_at(op.float("tau"), rate), F32(rate * gradient.first)
        likely = F32(F32(size * size) * F32(reach2 * bound[0])) if reach2 > 0 else F32(0.0)
        taken = F32(rate * bound_factor(likely, bound[1], tau))
    base = F32(taken * F32(gradient.first * gradient.relative))
    steps = [F32(base * F32(f)) for f in factors]
    rows = np.moveaxis(gradient.values, gradient.channel_axis, 0)
    delta = np.stack([weight_delta(row, s) for row, s in zip(rows, steps, strict=True)])
    delta = np.moveaxis(delta, 0, gradient.channel_axis)
    if accumulate:
        return ((states[0] + delta).astype(np.int32),) if step.apply else (states[0],)
    size = F32(taken * gradient.first)
    size2 = F32(size * size)
    reach2 = F32(size2 * reach2) if size2 > 0 else F32(0.0)
    return _take(op, delta, (rate, reach2), states, step)


def _bound_of(op: Op, states: Sequence[Array]) -> Array:
    """The bound among the states that are there."""
    return states[1 if op.str("state") == "int8" else 2]


def _take(
    op: Op,
    delta: Array,
    sizes: tuple[np.float32, np.float32],
    states: Sequence[Array],
    step: Step,
) -> tuple[Array, ...]:
    """Move the weights by `delta` unless the step only measures; states as `update_operands`.

    Args:
        sizes: the rate, for decay; the squared reach of the step as taken, 0 if unknown.
    """
    rate, reach2 = sizes
    wide = op.str("state") != "int8"
    weights, fraction = states[0], states[1] if wide else None
    velocities = tuple(states[3 if wide else 2 :])
    chosen = list(op.ints("channels")) or slice(None)
    new = weights[..., chosen]
    new_fraction = fraction
    if step.apply:
        change, velocities = _optimized(op, delta, (rate, new, fraction), velocities, step)
        new, new_fraction = move(new, fraction, change, op.str("state"), step.key(op))
    weights = weights.copy()
    weights[..., chosen] = new
    after = next_bound(_bound_of(op, states), delta, reach2, new)
    kept = () if new_fraction is None else (new_fraction,)
    return (weights, *kept, after, *velocities)


def _optimized(
    op: Op,
    delta: Array,
    held: tuple[np.float32, Array, Array | None],
    velocities: tuple[Array, ...],
    step: Step,
) -> tuple[Array, tuple[Array, ...]]:
    """The deltas to take and the new velocities; `held`: rate, weights, fraction."""
    if "momentum" not in op.attrs:
        return delta, ()
    change = delta
    if velocities:
        velocity, bits = velocities
        exact = optimizer.advance(velocity, int(bits[0]), delta, op.int("momentum"))
        change, dtype = optimizer.step_of(exact), str(velocity.dtype)
        key = step.key(op, "velocity_stream")
        kept = optimizer.stored(exact, int(bits[1]), dtype, key)
        new_bits = np.array([bits[1], optimizer.fitting_bits(exact, dtype)], np.int32)
        velocities = (kept, new_bits)
    if op.float("decay") > 0:
        rate, weights, fraction = held
        change = change + optimizer.decay_delta(weights, fraction, rate, op.float("decay"))
    return change, velocities


def channel_params(op: Op) -> dict[str, Param]:
    """The trained input channels: a table, or NULL for all."""
    channels = op.ints("channels")
    return {"channels": np.array(channels, np.uint16) if channels else "NULL"}


def update_params(op: Op, graph: Graph) -> Mapping[str, Param]:
    """The C fields of `tt_update_rule`."""
    factors = op.floats("factors")
    return {
        "factors": np.array(factors, np.float32),
        "gain": op.float("gain"),
        "tau": op.float("tau"),
        "inputs": graph[op.inputs[0]].size,
        "positions": graph[op.inputs[1]].size // len(factors),
        "channels": len(factors),
        "input_zero_point": op.int("zero_point"),
        "state": STATES[op.str("state")],
        "stream": op.int("stream"),
        **optimizer_params(op),
    }


def optimizer_params(op: Op) -> Mapping[str, Param]:
    """The C field `optimizer`; none for plain SGD, of which nothing is linked."""
    if "momentum" not in op.attrs:
        return {}
    return {
        "optimizer": {
            "calls": "&tt_momentum_and_decay",
            "momentum": op.int("momentum"),
            "wide": int(bool(op.attrs["wide"])),
            "decay": op.float("decay"),
            "stream": op.int("velocity_stream"),
        }
    }


def update_io(op: Op, first: int) -> Mapping[str, str]:
    """The C fields of `tt_update_io`; `first` is the index of the first state input."""
    names = op.inputs[first:]
    if op.attrs["accumulate"]:
        return {"accumulator": names[0], "weights": "", "fraction": "", "bound": ""}
    return {"accumulator": "", **_state_io(op, names)}


def _state_io(op: Op, names: Sequence[str]) -> dict[str, str]:
    """The C fields of the states, which `names` begins with."""
    fields = ["weights", "fraction", "bound"]
    if op.attrs.get("momentum"):
        fields += ["velocity", "velocity_bits"]
    return dict(zip(fields, names, strict=False))


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
        rate = F32(F32(step.learning_rate) * F32(op.int("batch")))
        tau = tau_at(op.float("tau"), rate)
        factor = bound_factor(_squared_norm(delta), _bound_of(op, states)[1], tau)
        if factor < 1:
            delta = -weight_delta(delta, F32(factor * F32(2.0**-DELTA_FRACTION_BITS)))
        taken = _take(op, delta, (rate, F32(0.0)), states, step)
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
                **optimizer_params(op),
            },
            {"accumulator": op.inputs[0], **_state_io(op, op.inputs[1:])},
            takes_step=True,
        )
