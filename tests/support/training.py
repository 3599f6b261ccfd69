"""The states of one trained layer, and what its update operators do to them.

In: a graph whose last operator has weights, how they are trained. Out: the backward run, with the
steps of weights and bias in real units. Must not know: autodiff, schemes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.support.backward import (
    RATE,
    Backward,
    Recorder,
    assert_similar,
    random_error,
    run_backward,
)
from tests.support.conformance import run_graph
from tests.support.tflite_writer import Array
from tinytrain.ir import Graph
from tinytrain.ops.base import Trained, TrainedBias
from tinytrain.ops.optimizer import START_BITS, Optimizer


@dataclass(frozen=True)
class Training:
    """How a layer is trained; see `ops.base.Trained`."""

    state: str = "float32"
    channels: tuple[int, ...] = ()
    tau: float = 0.0
    batch: bool = False
    rate: float = RATE
    optimizer: Optimizer = Optimizer()


def train_layer(graph: Graph, x: Array, training: Training, *, apply: bool = True) -> Backward:
    """Run the backward pass of the last operator with its weights and bias trained."""
    op = graph.ops[-1]
    name, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else ""
    weights = graph[name].data
    assert weights is not None
    part = weights[..., list(training.channels)] if training.channels else weights
    fractions = {"int8": None, "int16": np.zeros_like(part), "float32": part.astype(np.float32)}
    fraction = fractions[training.state]
    norm = np.float32(np.sum(part.astype(np.int64) ** 2))
    accumulator = np.zeros(part.shape, np.int32)
    trained = Trained(
        name,
        "fraction" if fraction is not None else "",
        "bound",
        training.state,
        training.channels,
        1.0,
        training.tau,
        "accumulator" if training.batch else "",
        optimizer=training.optimizer,
        velocity="velocity" if training.optimizer.momentum else "",
        velocity_bits="velocity_bits" if training.optimizer.momentum else "",
    )
    trained_bias = None
    if bias:
        trained_bias = TrainedBias(
            bias,
            "bias_accumulator" if training.batch else "",
            training.tau,
            training.optimizer.momentum_q16,
            "bias_velocity" if training.optimizer.momentum else "",
        )
    recorder = Recorder(graph, {name: trained}, trained_bias)
    recorder.state("bound", np.array([1.0, norm], np.float32))
    recorder.state("accumulator", accumulator)
    if fraction is not None:
        recorder.state("fraction", fraction)
    if training.optimizer.momentum:
        recorder.state("velocity", np.zeros(part.shape, training.optimizer.velocity))
        recorder.state("velocity_bits", np.full(2, START_BITS["int8"], np.int32))
        recorder.state("bias_velocity", np.zeros(graph[bias].shape if bias else (1,), np.int32))
    if bias:
        recorder.state("bias_accumulator", np.zeros(graph[bias].shape, np.int32))
    values = run_graph(graph, x)
    error = random_error(np.random.default_rng(5), graph[op.outputs[0]].shape)
    return run_backward(recorder, values, error, apply=apply, rate=training.rate)


def assert_step_follows_the_gradient(
    result: Backward, graph: Graph, name: str, gradient: Array
) -> None:
    """The float32 weight state `fraction` moved by -rate * gradient, both in real units."""
    (case,) = [c for c in result.cases() if "fraction" in c.op.outputs]
    moved = case.after["fraction"].astype(np.float64) - case.before["fraction"]
    axis = graph[name].q.axis or 0
    shape = [1] * moved.ndim
    shape[axis] = -1
    scales = graph[name].q.scales(graph[name].shape[axis]).astype(np.float64).reshape(shape)
    assert_similar(moved * scales, -RATE * gradient)
