"""Whether a pass changed the numbers.

In: two graphs of one model. Out: nothing, or a failed assertion. Must not know: passes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from codegen import generate
from tests.support.tflite_writer import Array
from tinytrain.interp import Interpreter
from tinytrain.ir import Graph
from tinytrain.memory import plan
from tinytrain.ops.base import Step
from tinytrain.toolchain.simulator import Simulator

SEED = 7
RATE = 0.02


def inputs_of(graph: Graph, count: int = 4) -> Array:
    """Random int8 inputs [count, ...]."""
    shape = (count, *graph[graph.inputs[0]].shape[1:])
    return np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)


def assert_same_forward(before: Graph, after: Graph, count: int = 4) -> None:
    """Every tensor that both graphs make forward is equal."""
    first, second = Interpreter(before), Interpreter(after)
    for x in inputs_of(before, count):
        wanted, got = first.infer(x), second.infer(x)
        common = wanted.keys() & got.keys()
        assert set(after.outputs) & wanted.keys() <= common
        for name in common:
            assert np.array_equal(wanted[name], got[name]), name


def interpreted_training(graph: Graph, steps: int = 4, batch: int = 1) -> Mapping[str, Array]:
    """The states after a calibrating step and some training steps in NumPy."""
    interpreter = Interpreter(graph)
    rate = np.float32(np.float32(RATE) / np.float32(batch))
    for index, x in enumerate(inputs_of(graph, steps + 1)):
        step = Step(SEED, index, rate, index > 0, _target(graph, index))
        interpreter.train_step(x, step)
        if batch > 1 and index > 0 and index % batch == 0:
            interpreter.apply_batch(step)
    return interpreter.state


def assert_c_trains_alike(graph: Graph, steps: int = 4, batch: int = 1) -> None:
    """Generated C ends in the state in which the interpreter ends, writing only what is its own."""
    made = plan(graph)
    simulator = Simulator(generate(made))
    simulator.set_seed(SEED)
    simulator.set_batch(batch)
    x = inputs_of(graph, steps + 1)
    targets = np.array([_target(graph, i) for i in range(len(x))], np.int32)
    simulator.train(x[:1], targets[:1], RATE, apply=False)
    simulator.train(x[1:], targets[1:], RATE)
    assert simulator.state() == made.state.pack(interpreted_training(graph, steps, batch))
    values = simulator.trace(x[0], targets[0], train=True, rate=RATE)
    assert made.graph.outputs[0] in values


def _target(graph: Graph, index: int) -> int:
    return index % graph[graph.outputs[0]].size
