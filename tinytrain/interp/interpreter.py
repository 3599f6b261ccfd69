"""The NumPy integer interpreter: the definition of the numbers.

In: a graph (inference or training). Out: every tensor. Generated C computes the same bits. Must not
know memory plans or C.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tinytrain.ir import Array, Graph, Op, Phase, Role
from tinytrain.ops.base import Step, definition

_EMPTY_STEP = Step()


class Interpreter:
    """Runs a graph and keeps its states between runs.

    Attributes:
        state: name -> current value of every state and buffer tensor.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.state: dict[str, Array] = {}
        self.reset()

    def reset(self) -> None:
        """Back to the initial states."""
        for tensor in self.graph.tensors.values():
            if tensor.role in (Role.STATE, Role.BUFFER):
                assert tensor.data is not None
                self.state[tensor.name] = tensor.data.copy()

    def infer(self, x: Array) -> Mapping[str, Array]:
        """Run the forward phase on one sample (the input's shape, int8).

        Returns:
            Every tensor by name.
        """
        return self._run(x, self.graph.phase(Phase.FORWARD), _EMPTY_STEP)

    def train_step(self, x: Array, step: Step) -> Mapping[str, Array]:
        """Run forward and backward on one sample; states change. Returns every tensor."""
        return self._run(x, self.graph.phase(Phase.FORWARD, Phase.BACKWARD), step)

    def apply_batch(self, step: Step) -> None:
        """Run the apply phase, at the end of a batch."""
        self._execute({}, self.graph.phase(Phase.APPLY), step)

    def _run(self, x: Array, ops: Iterable[Op], step: Step) -> Mapping[str, Array]:
        name = self.graph.inputs[0]
        return self._execute({name: x.reshape(self.graph[name].shape)}, ops, step)

    def _execute(self, values: dict[str, Array], ops: Iterable[Op], step: Step) -> dict[str, Array]:
        for op in ops:
            inputs = [self._value(values, name, step) for name in op.inputs]
            outputs = definition(op).run(op, self.graph, inputs, step)
            for name, value in zip(op.outputs, outputs, strict=True):
                target = self.state if name in self.state else values
                target[name] = value
        return values

    def _value(self, values: Mapping[str, Array], name: str, step: Step) -> Array:
        if not name:
            return None  # type: ignore[return-value]  # an absent optional input
        if name in self.state:
            return self.state[name]
        tensor = self.graph[name]
        if tensor.role is Role.TARGET:
            return np.asarray(step.target)
        if tensor.data is not None:
            return tensor.data
        return values[name]


def mean_squares(graph: Graph, samples: Array) -> dict[str, float]:
    """Calibration: activation -> mean over `samples` of the square of its real value.

    Args:
        graph: a forward graph.
        samples: int8 [N, ...], N >= 1.
    """
    interpreter = Interpreter(graph)
    totals: dict[str, float] = {}
    for sample in samples:
        for name, value in interpreter.infer(sample).items():
            tensor = graph[name]
            if tensor.quant is None:
                continue
            real = (value.astype(np.float64) - tensor.q.zero_point) * tensor.q.scale0
            totals[name] = totals.get(name, 0.0) + float(np.mean(real**2))
    return {name: total / len(samples) for name, total in totals.items()}
