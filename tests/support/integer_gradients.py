"""Read the exact integer gradients that a training graph computes, in real units.

In: a training graph with immediate updates (batch 1). Out: gradients by weight and bias name. The
updates themselves are intercepted, so that the states stay and one sample may be drawn with many
random seeds. Must not know how the gradients come about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.support.float_reference import LAYERS
from tinytrain.interp import Interpreter
from tinytrain.ir import Array, Graph, Op, Phase
from tinytrain.ops import bias as bias_rules
from tinytrain.ops import weight_update
from tinytrain.ops.base import Step

RATE = np.float32(1.0)  # at rate 1 a step is minus the gradient


class GradientProbe:
    """Runs training steps that only report what they would subtract.

    Attributes:
        interpreter: its states are those after calibration.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.interpreter = Interpreter(graph)
        self.tensors: Mapping[str, Array] = {}
        self._layer = {
            name: op
            for op in graph.phase(Phase.FORWARD)
            if op.kind in LAYERS
            for name in op.inputs[1:]
            if name
        }
        self._found: dict[str, Array] = {}
        self._calibrated: dict[str, Array] = {}
        self._current = ""

    def calibrate(
        self, samples: Sequence[Array], targets: Sequence[Array | int], steps: int = 64
    ) -> None:
        """Settle the error ranges as the pipeline does before training.

        First they forget their start values fast, then they rise to the maximum over many samples.
        """
        for apply, rate in ((False, RATE), (True, np.float32(0.0))):
            for index in range(steps):
                k = index % len(samples)
                step = Step(99, index, rate, apply, targets[k])
                self.interpreter.train_step(samples[k], step)
        self._calibrated = {name: value.copy() for name, value in self.interpreter.state.items()}

    def draw(self, x: Array, target: Array | int, seed: int) -> dict[str, Array]:
        """One backward pass with the random streams of `seed`; `tensors` holds all its tensors.

        Returns:
            dL/d(real weight or bias), float64, by tensor name. Where an update has the factor rho,
            it is in the gradient.
        """
        self._found = {}
        self.interpreter.state.update(self._calibrated)
        with (
            patch.object(weight_update, "run_update", self._take_weights),
            patch.object(bias_rules, "bias_delta", self._take_bias),
            patch.object(bias_rules.BiasUpdate, "run", self._named(bias_rules.BiasUpdate.run)),
        ):
            step = Step(seed, 1000, RATE, apply=True, target=target)
            self.tensors = self.interpreter.train_step(x, step)
        return self._found

    def _named(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def named(rules: object, op: Op, *rest: object) -> Any:
            self._current = op.outputs[0]
            return run(rules, op, *rest)

        return named

    def _scales(self, name: str) -> Array:
        layer = self._layer[name]
        weights = self.graph[layer.inputs[1]]
        channels = weights.shape[3 if layer.kind == "depthwise_conv2d" else 0]
        return weights.q.scales(channels).astype(np.float64)

    def _take_weights(
        self,
        op: Op,
        gradient: weight_update.Gradient,
        states: Sequence[Array],
        step: Step,
    ) -> tuple[Array, ...]:
        name = op.inputs[3]
        values, unit = gradient.values, float(gradient.first * gradient.relative)
        assert np.abs(values).max() < 2**31, f"{name}: the gradient leaves int32"
        # a step in weight units times the weight's scale is a step in real units
        per_channel = unit * np.array(op.floats("factors"), np.float64) * self._scales(name)
        shape = [1] * values.ndim
        shape[gradient.channel_axis] = -1
        self._found[name] = values * per_channel.reshape(shape)
        return tuple(states)

    def _take_bias(self, sums: Array, steps: Sequence[np.float32], noise: Array) -> Array:
        x = self.graph[self._layer[self._current].inputs[0]]
        unit = self._scales(self._current) * float(np.float32(x.q.scale0))
        self._found[self._current] = sums * np.array(steps, np.float64) * unit
        return np.zeros_like(sums)
