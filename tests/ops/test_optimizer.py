"""Momentum and weight decay: the arithmetic, and that C computes the same."""

from __future__ import annotations

import itertools
from typing import cast

import numpy as np
import pytest

from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import graph_of
from tests.support.tflite_builder import Builder, Ref
from tests.support.tflite_writer import Array
from tests.support.training import Training, train_layer
from tinytrain.ir import Attr, Graph, Op
from tinytrain.numeric.random import Key
from tinytrain.ops.base import Step, definition
from tinytrain.ops.optimizer import (
    START_BITS,
    VELOCITY_BITS,
    VELOCITY_MAX,
    Optimizer,
    advance,
    decay_delta,
    fitting_bits,
    step_of,
    stored,
)
from tinytrain.ops.weight_update import Gradient, run_update, squared_sum

F32 = np.float32
NO_GRAPH = cast(Graph, None)


def update_op(optimizer: Optimizer, state: str = "float32") -> Op:
    attrs: dict[str, Attr] = {
        "state": state, "factors": (1.0,), "gain": 1.0, "tau": 0.0, "stream": 1,
        "accumulate": False, "channels": (), "momentum": optimizer.momentum_q16,
        "decay": optimizer.decay, "wide": optimizer.velocity == "int16", "velocity_stream": 2,
    }  # fmt: skip
    return Op("conv2d_update", "update", (), (), attrs)


def states_of(weights: Array, optimizer: Optimizer) -> list[Array]:
    """float32 weights, bound, and velocities where there is momentum."""
    bound = np.array([1, squared_sum(weights)], np.float32)
    states: list[Array] = [weights, weights.astype(np.float32), bound]
    if optimizer.momentum_q16:
        bits = np.full(2, START_BITS[optimizer.velocity], np.int32)
        states += [np.zeros(weights.shape, optimizer.velocity), bits]
    return states


def run(optimizer: Optimizer, gradients: list[Array], weights: Array, rate: float = 0.01) -> Array:
    """The float32 weights after steps of -rate * gradient."""
    op, states = update_op(optimizer), states_of(weights, optimizer)
    for index, gradient in enumerate(gradients):
        made = Gradient(gradient, 0, F32(1.0), F32(1.0), np.zeros(1), 0)
        states = list(run_update(op, made, states, Step(3, index, F32(rate))))
    return states[1].astype(np.float64)


@pytest.mark.parametrize("momentum", [0.5, 0.9])
@pytest.mark.parametrize("velocity", ["int8", "int16"])
def test_momentum_is_that_of_heavy_ball_sgd(velocity: str, momentum: float) -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-60, 61, (1, 400)).astype(np.int8)
    slope = rng.normal(0, 3, weights.shape)
    gradients = [np.rint(slope + rng.normal(0, 3, slope.shape)).astype(np.int64) for _ in range(60)]
    found = run(Optimizer(momentum, velocity), gradients, weights)
    wanted, speed = weights.astype(np.float64), np.zeros(weights.shape)
    for gradient in gradients:
        speed = momentum * speed - 0.01 * gradient
        wanted = wanted + speed
    moved = wanted - weights
    error = (found - wanted).std() / moved.std()
    assert error < {"int8": 0.05, "int16": 0.002}[velocity]
    assert np.vdot(found - weights, moved) == pytest.approx(np.vdot(moved, moved), rel=0.01)


@pytest.mark.parametrize("velocity", ["int8", "int16"])
def test_velocities_neither_stop_nor_drift_with_noise(velocity: str) -> None:
    rng = np.random.default_rng(1)
    weights = np.full((1, 500), 50, np.int8)
    noise = [rng.integers(-9, 10, weights.shape) for _ in range(2000)]
    found = run(Optimizer(0.9, velocity), noise, weights, rate=1e-3)
    assert found.std() > 0.5  # ten times that of plain SGD
    assert found.mean() == pytest.approx(50.0, rel=0.005)


def test_stored_velocities_are_unbiased_and_saturate() -> None:
    exact = np.array([12345, -12345, 3, VELOCITY_MAX], np.int64)
    draws = np.array([stored(exact, 8, "int16", Key(key)) for key in range(4000)])
    mean = draws.astype(np.float64).mean(axis=0) * 2 ** (VELOCITY_BITS - 8)
    assert mean[:3] == pytest.approx(exact[:3], abs=200)
    assert np.all(draws[:, 3] == 32767)
    assert np.array_equal(stored(exact[:3], VELOCITY_BITS, "int16", Key(1)), exact[:3])


@pytest.mark.parametrize(("dtype", "limit"), [("int8", 127), ("int16", 32767)])
def test_bits_leave_room_for_twice_the_largest(dtype: str, limit: int) -> None:
    for largest in (0, 1, limit // 2, limit, 10 * limit, VELOCITY_MAX):
        bits = fitting_bits(np.array([largest, -largest]), dtype)
        held = (2 * largest) >> (VELOCITY_BITS - bits)
        assert held <= limit or bits == 0
        if 0 < bits < VELOCITY_BITS:
            assert (2 * largest) >> (VELOCITY_BITS - bits - 1) > limit


def test_advance_saturates() -> None:
    held = np.array([127, -127], np.int8)
    delta = np.array([(1 << 23) - 1, -(1 << 23) + 1])
    exact = advance(held, 0, delta, 65000)
    assert exact.tolist() == [VELOCITY_MAX, -VELOCITY_MAX]
    assert step_of(exact).tolist() == delta.tolist()


def test_decay_shrinks_weights_as_adamw_does() -> None:
    weights = np.array([[-120, -7, 0, 30, 127]], np.int8)
    nothing = [np.zeros(weights.shape, np.int64)] * 500
    found = run(Optimizer(decay=0.1), nothing, weights)
    assert found[0] == pytest.approx(weights[0] * (1 - 1e-3) ** 500, abs=0.05)


@pytest.mark.parametrize("state", ["int8", "int16", "float32"])
def test_decay_delta_of_each_state(state: str) -> None:
    weights = np.array([-100, 0, 1, 64], np.int8)
    fractions = {
        "int8": None,
        "int16": np.array([0, 64, -128, 0], np.int8),
        "float32": np.array([-100, 0.25, 0.5, 64], np.float32),
    }
    real = {"int8": weights.astype(float)}.get(state, np.array([-100, 0.25, 0.5, 64]))
    delta = decay_delta(weights, fractions[state], F32(0.5), 0.01)
    assert delta.tolist() == pytest.approx(np.rint(-real * 0.005 * 65536), abs=1)


def test_measuring_leaves_velocities() -> None:
    optimizer = Optimizer(0.9)
    states = states_of(np.array([[3, 4]], np.int8), optimizer)
    made = Gradient(np.full((1, 2), 500), 0, F32(1.0), F32(1.0), np.ones(1), 1)
    step = Step(0, 0, F32(1.0), apply=False)
    after = run_update(update_op(optimizer), made, states, step)
    assert all(np.array_equal(a, b) for a, b in zip(after[3:], states[3:], strict=True))


@pytest.mark.parametrize("batch", [False, True])
def test_biases_gather_speed(batch: bool) -> None:
    """Of a constant step d, momentum 1/2 makes d, 1.5 d, 1.75 d, .."""
    kind = "apply_bias" if batch else "bias_update"
    attrs: dict[str, Attr] = {
        "momentum": 1 << 15, "velocity_stream": 2,
        "factors": (1.0,), "limits": (), "gain": 1.0, "stream": 1,
    }  # fmt: skip
    op, one = Op(kind, "bias", (), (), attrs), np.ones(1, np.float32)
    bias, velocity = np.zeros(1, np.int32), np.zeros(1, np.int32)
    seen = []
    for index in range(3):
        if batch:
            inputs: list[Array] = [np.array([-4096], np.int32), bias, velocity]
        else:
            inputs = [np.full((1, 64, 1), 64, np.int8), one, bias, one, velocity]
        result = definition(op).run(op, NO_GRAPH, inputs, Step(0, index, F32(1.0)))
        bias, velocity = result[-2:]
        seen.append(int(velocity[0]))
    assert seen == [-4096, -6144, -7168]
    assert bias.tolist() == [sum(seen)]
    step = Step(0, 3, F32(1.0), apply=False)
    assert definition(op).run(op, NO_GRAPH, [*inputs[:-1], velocity], step)[-1] is velocity


def test_c_computes_the_same() -> None:
    rng = np.random.default_rng(3)

    def dense(b: Builder, x: Ref) -> Ref:
        weights = rng.integers(-127, 128, (9, 24), dtype=np.int8)
        bias = rng.integers(-3000, 3000, 9).astype(np.int32)
        return b.fully_connected(x, weights, [0.0123], bias, out_scale=0.2)

    graph, cases = graph_of(dense, (1, 24)), list[Case]()
    optimizers = (Optimizer(0.9), Optimizer(0.99, "int8", 0.05), Optimizer(decay=0.5))
    for i, (state, batch, optimizer) in enumerate(
        itertools.product(("int8", "int16", "float32"), (False, True), optimizers)
    ):
        x = np.random.default_rng(i).integers(-128, 128, (1, 24), dtype=np.int8)
        channels = ((), (1, 3))[i % 2]
        for apply in (False, True):
            training = Training(state, channels, 0.001, batch, 0.01, optimizer)
            cases += train_layer(graph, x, training, apply=apply).cases()
    assert_kernels(cases)
