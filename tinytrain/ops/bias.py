"""The step that a bias takes: minus rate times the sum of the folded error over positions.

Source: DESIGN section 2: db[c] = -lr * S_u * sum(u) / (s_w[c]^2 * s_x), in units of the int32 bias,
within tau of the output's range a sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinytrain.ir import Array, Attr, Graph, Op, Phase, Tensor
from tinytrain.numeric import random
from tinytrain.numeric.error_scale import step_multiplier
from tinytrain.ops.base import (
    Error,
    GradBuilder,
    KernelCall,
    OpDef,
    Param,
    Step,
    TrainedBias,
    optional,
)

BIAS_MAX = (1 << 30) - 1
F32 = np.float32


def emit_bias_update(
    builder: GradBuilder,
    u: Error,
    trained: TrainedBias,
    factors: tuple[float, ...],
    limits: tuple[int, ...],
) -> None:
    """The update of a bias from the folded error `u`.

    Args:
        factors: float32, one a channel.
        limits: from `bias_limits`.
    """
    state = trained.accumulator or trained.bias
    velocity = (trained.velocity,) if trained.velocity else ()
    at_once = () if trained.accumulator else velocity
    builder.emit(
        "bias_update",
        (u.tensor, u.scale, state, builder.first_scale, *at_once),
        (state, *at_once),
        factors=factors,
        limits=limits,
        gain=u.gain,
        stream=builder.stream(),
        **_momentum_attrs(builder, trained, bool(at_once)),
    )
    if trained.accumulator:
        states = (trained.accumulator, trained.bias, *velocity)
        attrs = _momentum_attrs(builder, trained, bool(velocity))
        builder.emit_in(Phase.APPLY, "apply_bias", states, states, **attrs)


def _momentum_attrs(builder: GradBuilder, trained: TrainedBias, wanted: bool) -> dict[str, Attr]:
    if not wanted:
        return {}
    return {"momentum": trained.momentum, "velocity_stream": builder.stream()}


def bias_limits(out: Tensor, unit: Array, tau: float) -> tuple[int, ...]:
    """Largest step of each bias a sample: tau of the int8 range of the layer's output.

    A bias moves all of a channel at once, and the output's range is fixed: steps that are large
    beside it drive channels to a clamp bound, where their error is 0 for good.

    Args:
        out: output of the layer.
        unit: real size of one unit of the bias, one a channel.

    Returns:
        One a channel, at least 1; () for no bound (tau 0, or the logits, which have no range).
    """
    if tau == 0.0 or out.dtype != "int8":
        return ()
    limits = np.rint(tau * 255 * out.q.scale0 / unit.astype(np.float64))
    return tuple(int(v) for v in np.clip(limits, 1, BIAS_MAX))


def bias_delta(sums: Array, steps: Sequence[np.float32], noise: Array) -> Array:
    """-sums * steps, rounded stochastically with `noise` (32 random bits each), int64."""
    out = np.zeros_like(sums)
    for c, (total, step) in enumerate(zip(sums.tolist(), steps, strict=True)):
        multiplier, shift = step_multiplier(step)
        shift += 16  # whole units, not Q16
        product = -total * multiplier
        if shift <= 0:
            out[c] = product << min(-shift, 8)
        elif shift <= 62:
            draw = int(noise[c])
            draw = draw << (shift - 32) if shift >= 32 else draw >> (32 - shift)
            out[c] = (product + draw) >> shift
    return np.clip(out, -BIAS_MAX, BIAS_MAX)


def next_velocity(velocity: Array, delta: Array, op: Op, step: Step) -> Array:
    """v = m * v + delta in bias units, rounded stochastically, saturated; int64."""
    noise = random.random_bits(step.key(op, "velocity_stream"), delta.size, 16)
    moved = velocity.astype(np.int64) * op.int("momentum") + (delta.astype(np.int64) << 16)
    return np.clip((moved + noise) >> 16, -BIAS_MAX, BIAS_MAX)


class BiasUpdate(OpDef):
    """Sum the folded error over positions and step the bias (or the batch's accumulator)."""

    kind = "bias_update"
    trains = True

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The states'."""
        return tuple(graph[name].shape for name in op.outputs)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """int32 state, saturated to +-(2^30 - 1)."""
        del graph
        u, scale, state, first, *velocity = inputs
        if not step.apply:
            return (state, *velocity)
        sums = u.reshape(-1, u.shape[-1]).astype(np.int64).sum(axis=0)
        relative = F32(scale[0] * F32(op.float("gain")))
        base = F32(F32(first[0] * relative) * F32(step.learning_rate))
        steps = [F32(base * F32(f)) for f in op.floats("factors")]
        noise = random.random_bits(step.key(op), len(steps), 32)
        delta = bias_delta(sums, steps, noise)
        limits = np.array(op.ints("limits") or BIAS_MAX, np.int64)
        delta = np.clip(delta, -limits, limits)
        if velocity:
            delta = next_velocity(velocity[0], delta, op, step)
            velocity = [delta.astype(np.int32)]
        moved = np.clip(state.astype(np.int64) + delta, -BIAS_MAX, BIAS_MAX)
        return (moved.astype(np.int32), *velocity)

    def macs(self, op: Op, graph: Graph) -> int:
        """One addition an element is counted as one."""
        return graph[op.inputs[0]].size

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_bias_update`."""
        u, limits = graph[op.inputs[0]], op.ints("limits")
        return KernelCall(
            "tt_bias_update",
            {
                "positions": u.size // u.shape[-1],
                "channels": u.shape[-1],
                "factors": np.array(op.floats("factors"), np.float32),
                "limits": np.array(limits, np.int32) if limits else "NULL",
                "gain": op.float("gain"),
                "stream": op.int("stream"),
                **momentum_params(op),
            },
            {
                "folded": op.inputs[0],
                "folded_scale": op.inputs[1],
                "bias": op.inputs[2],
                "first_scale": op.inputs[3],
                "velocity": optional(op.inputs, 4),
            },
            takes_step=True,
        )


class ApplyBias(OpDef):
    """End of a batch: add the accumulator to the bias and clear it."""

    kind = "apply_bias"
    trains = True

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """Both keep their shapes."""
        return tuple(graph[name].shape for name in op.outputs)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """int32, saturated to +-(2^30 - 1)."""
        del graph
        accumulator, bias, *velocity = inputs
        if not step.apply:
            return (accumulator, bias, *velocity)
        delta = accumulator.astype(np.int64)
        if velocity:
            delta = next_velocity(velocity[0], delta, op, step)
            velocity = [delta.astype(np.int32)]
        total = np.clip(bias.astype(np.int64) + delta, -BIAS_MAX, BIAS_MAX)
        return (np.zeros_like(accumulator), total.astype(np.int32), *velocity)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_apply_bias`."""
        return KernelCall(
            "tt_apply_bias",
            {"count": graph[op.inputs[0]].size, **momentum_params(op)},
            {
                "accumulator": op.inputs[0],
                "bias": op.inputs[1],
                "velocity": optional(op.inputs, 2),
            },
            takes_step=True,
        )


def momentum_params(op: Op) -> dict[str, Param]:
    """The C fields of momentum; none without."""
    if "momentum" not in op.attrs:
        return {}
    return {"momentum": op.int("momentum"), "velocity_stream": op.int("velocity_stream")}
