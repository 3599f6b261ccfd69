"""The step of weights and biases: no drift, saturation, bounds, batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from tests.support.tflite_writer import Array
from tinytrain.ir import Attr, Graph, Op, Tensor
from tinytrain.numeric import random
from tinytrain.numeric.error_scale import DELTA_MAX, DELTA_MIN
from tinytrain.numeric.quantize import Quant
from tinytrain.ops import weight_update as wu
from tinytrain.ops.base import Step, definition
from tinytrain.ops.bias import BIAS_MAX, bias_delta, bias_limits
from tinytrain.ops.weight_update import (
    ONE,
    Gradient,
    bound_factor,
    move,
    next_bound,
    rate_factors,
    squared_sum,
    tau_at,
)

STATES = ("int8", "int16", "float32")
NO_GRAPH = cast(Graph, None)  # the updates do not look at it
F32 = np.float32


def update_op(state: str, channels: int, *, tau: float = 0.0, accumulate: bool = False) -> Op:
    attrs: dict[str, Attr] = {
        "state": state, "factors": (1.0,) * channels, "gain": 1.0, "tau": tau, "stream": 1,
        "accumulate": accumulate, "channels": (),
    }  # fmt: skip
    return Op("conv2d_update", "update", (), (), attrs)


def run_update(
    op: Op,
    gradient: Array,
    relative: np.float32,
    states: Sequence[Array],
    step: Step,
    *,
    first: float = 1.0,
    reach: float | None = None,
) -> tuple[Array, ...]:
    """Errors and inputs such that the squared reach is that of the gradient, or `reach` squared."""
    square = float(np.sum(gradient.astype(np.float64) ** 2)) if reach is None else reach**2
    errors2 = np.zeros(gradient.shape[0])
    errors2[0] = square
    made = Gradient(gradient, 0, relative, F32(first), errors2, 1)
    return wu.run_update(op, made, states, step)


def fresh_states(weights: Array, state: str) -> list[Array]:
    states = [weights.copy()]
    if state == "int16":
        states.append(np.zeros(weights.shape, np.int8))
    if state == "float32":
        states.append(weights.astype(np.float32))
    return [*states, np.array([1, squared_sum(weights)], np.float32)]


def real_weights(states: list[Array] | tuple[Array, ...], state: str) -> Array:
    if state == "int8":
        return states[0].astype(np.float64)
    if state == "int16":
        both: Array = states[0] + states[1] / 256
        return both
    return states[1].astype(np.float64)


def some_weights(shape: tuple[int, ...], low: int = 40, high: int = 80) -> Array:
    rng = np.random.default_rng(2)
    values: Array = rng.integers(low, high + 1, shape) * rng.choice([-1, 1], shape)
    return values.astype(np.int8)


# ---------------------------------------------------------------------------- nearest


@pytest.mark.parametrize(("state", "unit"), [("int8", 1 << 16), ("int16", 1 << 8)])
def test_to_nearest_less_than_half_a_unit_is_nothing(state: str, unit: int) -> None:
    weights = some_weights((1, 6))
    fraction = np.zeros(weights.shape, np.int8) if state == "int16" else None
    half = unit // 2
    delta = np.array([[half - 1, half, half + 1, -half, -half - 1, 3 * unit]])
    new, rest = move(weights, fraction, delta, state, random.stream_key(0, 1, random.NEAREST))
    moved = (new if rest is None else new * 256.0 + rest) - weights * (1.0 if rest is None else 256)
    assert moved.tolist() == [[0, 1, 1, 0, -1, 3]]


# ---------------------------------------------------------------------------- drift


@pytest.mark.parametrize("state", STATES)
def test_noise_does_not_shrink_weights(state: str) -> None:
    """A rounding toward zero anywhere would lose a good part of the weights here."""
    weights = some_weights((1, 1024))
    states: tuple[Array, ...] = tuple(fresh_states(weights, state))
    op, rng = update_op(state, 1), np.random.default_rng(3)
    for index in range(10_000):
        gradient = rng.integers(-1700, 1701, weights.shape)  # standard deviation 1000
        states = run_update(op, gradient, F32(1e-6), states, Step(7, index, F32(1.0)))
    before, after = (np.abs(w).mean() for w in (weights.astype(float), real_weights(states, state)))
    assert after == pytest.approx(before, rel=0.005)
    assert real_weights(states, state).mean() == pytest.approx(weights.mean(), abs=0.3)


@pytest.mark.parametrize("state", STATES)
def test_small_steps_add_up(state: str) -> None:
    """A thousand steps of a hundredth of a unit are ten units."""
    weights = some_weights((4, 500))
    states: tuple[Array, ...] = tuple(fresh_states(weights, state))
    op, gradient = update_op(state, 4), np.full((4, 500), -100)
    for index in range(1000):
        states = run_update(op, gradient, F32(1e-4), states, Step(1, index, F32(1.0)))
    moved = real_weights(states, state) - weights
    assert moved.mean() == pytest.approx(10.0, abs=0.2)


def test_int16_fraction_stays_in_step() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, 4000).astype(np.int8)
    fraction = rng.integers(-128, 128, 4000).astype(np.int8)
    delta = rng.integers(-(1 << 18), 1 << 18, 4000)
    new, rest = move(weights, fraction, delta, "int16", random.Key(5))
    assert rest is not None
    total = weights.astype(int) * 256 + fraction + delta / 256
    kept = new.astype(int) * 256 + rest
    assert np.all(np.abs(kept - np.clip(total, -127 * 256, 127 * 256)) <= 1)


# ---------------------------------------------------------------------------- saturation


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("sign", [-1, 1])
def test_saturates_at_127(state: str, sign: int) -> None:
    weights = np.array([[-127, -1, 0, 1, 127]], np.int8)
    states: tuple[Array, ...] = tuple(fresh_states(weights, state))
    for index in range(3):
        gradient = np.full(weights.shape, -sign * (2**31 - 1))
        states = run_update(
            update_op(state, 1), gradient, F32(1e9), states, Step(0, index, F32(1.0))
        )
    assert states[0].tolist() == [[127 * sign] * 5]
    assert np.abs(real_weights(states, state)).max() == 127


# ---------------------------------------------------------------------------- the bound


def test_bound_factor() -> None:
    step2, weights2 = F32(400.0), F32(1e6)  # norms 20 and 1000
    assert bound_factor(step2, weights2, 0.02) == 1.0
    assert bound_factor(step2, weights2, 0.01) == pytest.approx(0.5)
    assert bound_factor(F32(4e4), weights2, 0.01) == pytest.approx(0.05)
    assert bound_factor(F32(4e14), weights2, 0.0) == 1.0
    assert bound_factor(F32(0), F32(0), 0.01) == 1.0
    assert bound_factor(F32(np.inf), weights2, 0.01) == 0.0


def test_the_bound_state_follows_the_mean_share_of_the_reach() -> None:
    weights = np.array([3, 4], np.int8)
    bound = np.array([1.0, 0.0], np.float32)
    delta = np.array([2 << 16, 0])  # norm 2
    after = next_bound(bound, delta, F32(8.0), weights)
    assert after.tolist() == [1 - 0.5 / 8, 25.0]
    assert next_bound(after, delta, F32(4.0), weights)[0] > after[0]
    # a step of which rounding left next to nothing tells nothing, one without a reach neither
    assert next_bound(after, np.array([1000, 0]), F32(8.0), weights).tolist() == after.tolist()
    assert next_bound(after, delta, F32(0.0), weights).tolist() == after.tolist()


def test_reach_is_that_of_errors_times_inputs() -> None:
    rng = np.random.default_rng(1)
    u, x = rng.integers(-128, 128, (9, 4)), rng.integers(-255, 256, (9, 6))
    factors = (0.5, 2.0, 1e-3, 3.0)
    gradient = np.einsum("po,pi->oi", u, x)
    made = Gradient.of(gradient, 0, (F32(0.25), F32(7.0)), u.astype(np.int8), x)
    reach = float(np.sqrt(made.reach2(factors)))
    scaled = 0.25 * np.array(factors)
    norm = np.linalg.norm(u * scaled) * np.linalg.norm(x)
    assert reach == pytest.approx(norm, rel=1e-6)
    assert np.linalg.norm(gradient * scaled[:, None]) <= reach
    # of a single position, the step is the reach
    one = Gradient.of(np.outer(u[0], x[0]), 0, (F32(0.25), F32(7.0)), u[:1], x[:1])
    exact = np.linalg.norm(np.outer(u[0] * scaled, x[0]))
    assert np.sqrt(one.reach2(factors)) == pytest.approx(exact, rel=1e-6)


def test_no_reach_without_errors_or_inputs_even_where_factors_are_huge() -> None:
    zero, some = np.zeros((3, 2), np.int8), np.ones((3, 2), np.int8)
    for u, x in ((zero, some), (some, zero)):
        made = Gradient.of(u.T @ x, 0, (ONE, ONE), u, x)
        assert made.reach2((1e30, 1e30)) == 0.0
    assert np.isinf(Gradient.of(some.T @ some, 0, (ONE, ONE), some, some).reach2((1e30, 1e30)))


@pytest.mark.parametrize("share", [1.0, 0.1])
@pytest.mark.parametrize("rate", [1e-4, 1.0, 30.0])
def test_an_immediate_step_is_bounded(rate: float, share: float) -> None:
    """Exactly where it makes all of its reach; else once its usual share of it is known."""
    rng = np.random.default_rng(4)
    weights, tau = some_weights((3, 50)), 0.01
    states: tuple[Array, ...] = tuple(fresh_states(weights, "float32"))
    op = update_op("float32", 3, tau=tau)
    for index in range(80):
        size = 1.0 if index < 60 else 50.0  # fifty times larger from here on
        gradient = (rng.normal(0, 1000 * size, weights.shape)).round().astype(np.int64)
        reach = float(np.linalg.norm(gradient)) / share
        before, norm = states[1].astype(np.float64), np.linalg.norm(states[0].astype(float))
        step = Step(0, index, F32(rate))
        states = run_update(op, gradient, F32(0.01), states, step, reach=reach)
        taken = np.linalg.norm(states[1] - before)
        assert taken <= 1.001 * tau * norm
        if rate == 30.0 and index >= 56:
            assert taken >= 0.95 * tau * norm


def test_a_sample_with_a_large_error_is_bounded_as_well() -> None:
    """The unit of the first error is known before the step: a jump of it is no surprise."""
    rng = np.random.default_rng(8)
    weights, tau, rate = some_weights((3, 50)), 0.01, F32(0.1)
    states: tuple[Array, ...] = tuple(fresh_states(weights, "float32"))
    op = update_op("float32", 3, tau=tau)
    norm = np.linalg.norm(weights.astype(float))
    for index, first in enumerate([1e-4] * 40 + [1.0] + [1e-4] * 5 + [1.0]):
        gradient = rng.normal(0, 1000, weights.shape).round().astype(np.int64)
        before = states[1].astype(np.float64)
        reach = 3 * float(np.linalg.norm(gradient))
        step = Step(0, index, rate)
        states = run_update(op, gradient, F32(0.1), states, step, first=first, reach=reach)
        taken = np.linalg.norm(states[1] - before)
        assert taken <= 1.05 * tau * norm
        if first == 1.0:
            assert taken >= 0.1 * tau * norm


def test_tau_shrinks_with_the_rate() -> None:
    assert tau_at(0.002, F32(0.01)) == tau_at(0.002, F32(3.0)) == 0.002
    assert tau_at(0.002, F32(0.005)) == pytest.approx(0.001)
    assert tau_at(0.002, F32(0.0)) == tau_at(0.0, F32(0.001)) == 0.0


def test_bias_limits() -> None:
    out = Tensor("y", (1, 3), "int8", quant=Quant((0.5,), 3))
    unit = np.array([1e-3, 0.1, 100.0])
    assert bias_limits(out, unit, 0.002) == (255, 3, 1)
    assert bias_limits(out, unit, 0.0) == ()
    assert bias_limits(Tensor("logits", (1, 3), "int32"), unit, 0.002) == ()


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_bias_step_is_bounded(sign: int) -> None:
    op = Op(
        "bias_update", "bias", (), ("bias",),
        {"factors": (1.0, 1.0), "limits": (7, 1000), "gain": 1.0, "stream": 1},
    )  # fmt: skip
    u, one = np.full((1, 4, 2), 100 * sign, np.int8), np.ones(1, np.float32)
    bias = np.array([50, 50], np.int32)
    (after,) = definition(op).run(op, NO_GRAPH, [u, one, bias, one], Step(0, 0, F32(1.0)))
    assert after.tolist() == [50 - 7 * sign, 50 - 400 * sign]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("size", [10, 1000, DELTA_MAX])
def test_batch_step_is_bounded_exactly(state: str, size: int) -> None:
    rng = np.random.default_rng(5)
    weights, tau = some_weights((4, 100)), 0.01
    accumulator = rng.integers(-size, size + 1, weights.shape).astype(np.int32)
    states = fresh_states(weights, state)
    fraction = [states[1]] if state != "int8" else [None]
    op = Op(
        "apply_weights", "apply", (), (),
        {"state": state, "tau": tau, "batch": 4, "channels": (), "stream": 2},
    )  # fmt: skip
    result = definition(op).run(
        op,
        NO_GRAPH,
        [accumulator, states[0], *fraction, states[-1]],
        Step(0, 0, F32(0.1)),
    )
    assert not result[0].any()
    after = result[1:]
    limit = tau * float(np.linalg.norm(weights.astype(float)))
    wanted = accumulator / 65536
    wanted = wanted * min(1.0, limit / float(np.linalg.norm(wanted)))
    moved = real_weights(after, state) - weights
    if state == "float32":
        assert np.linalg.norm(moved) <= limit * 1.0001
    grain = {"int8": 1.0, "int16": 1 / 256, "float32": 2e-5}[state]
    assert np.abs(moved - wanted).max() <= grain
    assert after[-1].tolist() == [1.0, float(squared_sum(after[0]))]


def test_measuring_leaves_weights() -> None:
    weights = some_weights((2, 10))
    for state in STATES:
        states = fresh_states(weights, state)
        step = Step(0, 0, F32(1.0), apply=False)
        after = run_update(update_op(state, 2), np.full((2, 10), 500), F32(0.1), states, step)
        assert all(np.array_equal(a, b) for a, b in zip(after[:-1], states[:-1], strict=True))
        assert after[-1][0] > 0


@pytest.mark.parametrize("state", STATES)
def test_rate_zero_moves_nothing(state: str) -> None:
    states = fresh_states(some_weights((2, 10)), state)
    for tau in (0.0, 0.01):
        op = update_op(state, 2, tau=tau)
        after = run_update(op, np.full((2, 10), 2**30), F32(1.0), states, Step())
        assert all(np.array_equal(a, b) for a, b in zip(after, states, strict=True))


# ---------------------------------------------------------------------------- batches


def test_a_batch_is_the_sum_of_its_samples() -> None:
    rng = np.random.default_rng(6)
    weights, op = some_weights((3, 40)), update_op("float32", 3, accumulate=True)
    accumulator: Array = np.zeros(weights.shape, np.int32)
    total = np.zeros(weights.shape)
    for index in range(8):
        gradient = rng.integers(-5000, 5001, weights.shape)
        total -= gradient * 1e-5
        (accumulator,) = run_update(
            op, gradient, F32(1e-4), [accumulator], Step(0, index, F32(0.1))
        )
    assert accumulator.dtype == np.int32
    assert np.abs(accumulator / 65536 - total).max() <= 8 * 0.5 / 65536 + 1e-6


def test_the_largest_batch_fits() -> None:
    op = update_op("int8", 1, accumulate=True)
    accumulator: Array = np.zeros((1, 2), np.int32)
    gradient = np.array([[-(2**31) + 1, 2**31 - 1]])
    for index in range(256):
        (accumulator,) = run_update(op, gradient, F32(1e3), [accumulator], Step(0, index, F32(1.0)))
    assert accumulator.tolist() == [[256 * DELTA_MAX, 256 * DELTA_MIN]]


def test_measuring_leaves_the_accumulator() -> None:
    op, accumulator = update_op("int8", 1, accumulate=True), np.ones((1, 2), np.int32)
    step = Step(0, 0, F32(1.0), apply=False)
    (after,) = run_update(op, np.full((1, 2), 900), F32(1.0), [accumulator], step)
    assert np.array_equal(after, accumulator)


def test_rate_factors() -> None:
    scales = np.array([0.5, 0.01, 4e-9], np.float32)
    factors = rate_factors(2.0, 0.25, scales)
    assert factors == pytest.approx([2.0, 5000.0, 0.5 / 1.6e-17], rel=1e-6)
    # scales of dead channels may be denormal; a factor must be a finite float32
    assert rate_factors(1.0, 1.0, np.array([1e-38], np.float32)) == pytest.approx([1e30])


# ---------------------------------------------------------------------------- biases


@pytest.mark.parametrize("step", [1e-12, 3e-6, 0.003, 0.4, 7.3, 2.5e4])
def test_bias_step_is_unbiased(step: float) -> None:
    sums = np.array([-9000, -131, -1, 0, 1, 40, 12_345], np.int64)
    draws = 3000
    noise = random.random_bits(random.Key(17), draws * sums.size, 32).reshape(draws, -1)
    found = np.array([bias_delta(sums, [F32(step)] * sums.size, row) for row in noise])
    exact = -sums * float(F32(step))
    assert np.abs(found - exact).max() < 1.0 + 1e-4 * np.abs(exact).max()
    spread = np.sqrt(np.abs(exact % 1.0 * (1 - exact % 1.0)) / draws)
    assert np.all(np.abs(found.mean(axis=0) - exact) <= 5 * spread + 2e-3)
    assert not found[:, 3].any()


def test_bias_step_saturates() -> None:
    for step in (1e5, 1e12, 1e30):
        delta = bias_delta(
            np.array([2**24, -(2**24), 0], np.int64), [F32(step)] * 3, np.zeros(3, int)
        )
        assert delta.tolist() == [-BIAS_MAX, BIAS_MAX, 0]


def bias_update(u: Array, bias: Array, step: Step, factor: float) -> Array:
    op = Op(
        "bias_update",
        "b",
        (),
        (),
        {"factors": (factor,) * 2, "limits": (), "gain": 0.5, "stream": 3},
    )
    inputs = [u, np.array([0.5], np.float32), bias, np.array([0.5], np.float32)]
    (after,) = definition(op).run(op, NO_GRAPH, inputs, step)
    return after


def test_bias_update_sums_over_positions() -> None:
    u = np.array([[[[1, -2], [3, -5]], [[10, 0], [-1, 7]]]], np.int8)
    bias = np.array([100, BIAS_MAX - 1], np.int32)
    # sums 13 and 0; scale 0.5 * 0.5 * 0.5, rate 2, factor 8
    after = bias_update(u, bias, Step(0, 0, F32(2.0)), 8.0)
    assert after.tolist() == [100 - 26, BIAS_MAX - 1]
    assert bias_update(u, bias, Step(0, 0, F32(2.0), apply=False), 8.0) is bias
    assert bias_update(u, bias, Step(0, 0, F32(0.0)), 8.0).tolist() == bias.tolist()
    far = bias_update(u - 1, bias, Step(0, 0, F32(1e30)), 8.0)
    assert far.tolist() == [100 - BIAS_MAX, BIAS_MAX]


def test_apply_bias_adds_and_clears() -> None:
    op = Op("apply_bias", "b", (), ())
    inputs = [np.array([5, BIAS_MAX], np.int32), np.array([-7, BIAS_MAX], np.int32)]
    cleared, bias = definition(op).run(op, NO_GRAPH, inputs, Step())
    assert cleared.tolist() == [0, 0]
    assert bias.tolist() == [-2, BIAS_MAX]


@pytest.mark.parametrize("state", STATES)
def test_weights_of_zero_can_move(state: str) -> None:
    """A bound relative to a norm of 0 would hold them for ever."""
    weights = np.zeros((1, 4), np.int8)
    states: tuple[Array, ...] = tuple(fresh_states(weights, state))
    op = update_op(state, 1, tau=0.1)
    for index in range(200):
        gradient = np.full(weights.shape, -1000)
        states = run_update(op, gradient, F32(1e-3), states, Step(0, index, F32(1.0)))
    assert np.all(real_weights(states, state) >= 1)
