"""Training in float32 by the rule that the int8 training follows.

In: a `FloatNet`, what the scheme trains, rates and order of the samples. Out: what it predicts.
The rule is the one of docs/numbers.md in real numbers: SGD with the rate divided by the mean square
of a layer's input, each weight tensor's step bounded by tau times the tensor's norm, here with the
norm of the very step, and each bias's step by tau times the range of the layer's output, here the
step of a whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.bench.float_net import FloatNet, Values, import_torch
from tinytrain.ir import Graph, Op, Role, Tensor
from tinytrain.ops.weight_update import FULL_TAU_RATE
from tinytrain.train.head import expected_mean_square
from tinytrain.train.layers import layers_of
from tinytrain.train.options import TrainOptions
from tinytrain.train.scheme import Scheme

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained parameter: what its gradient is multiplied by, and its bound.

    Attributes:
        factor: of the gradient, broadcast over the parameter.
        tau: largest step relative to the norm; 0 for none.
        limit: largest step of each element; 0 for none.
        mask: 1 where an input channel is trained; None for all.
    """

    name: str
    factor: Any
    tau: float
    limit: float
    mask: Any


def with_biases(graph: Graph, scheme: Scheme) -> Graph:
    """The graph with a bias of 0 for each layer that has none and is to train one."""
    ops, added = [], []
    for op in graph.ops:
        choice = scheme.choices.get(op.name)
        if choice is not None and choice.bias and (len(op.inputs) < 3 or not op.inputs[2]):
            channels = graph[op.outputs[0]].shape[-1]
            zeros = np.zeros(channels, np.int32)
            name = graph.fresh_name(f"{op.name}_bias")
            added.append(Tensor(name, (channels,), "int32", Role.CONST, data=zeros))
            op = replace(op, inputs=(*op.inputs[:2], name))
        ops.append(op)
    return graph.with_ops(ops, added)


class FloatTrainer:
    """One network in training.

    Args:
        graph: ends in class scores, or in values for the mean squared error.
        scheme: what is trained; whole layers and chosen input channels.
        options: loss, batch, bound; the weight state does not count.
        mean_square: tensor -> mean of real^2, as the int8 training has it.
    """

    def __init__(
        self,
        graph: Graph,
        scheme: Scheme,
        options: TrainOptions,
        mean_square: Mapping[str, float],
    ) -> None:
        self._torch = import_torch()
        graph = with_biases(graph, scheme)
        self._net, self._options = FloatNet(graph), options
        self._parameters: Values = self._net.parameters()
        self._trained: list[Trained] = []
        first: list[str] = []
        for layer in layers_of(graph):
            choice = scheme.choices.get(layer.op.name)
            if choice is not None and (choice.weights or choice.bias):
                first.append(layer.op.name)
                fresh = layer.is_head and options.classes is not None
                self._choose(layer.op, choice, 0.0 if fresh else options.bound, mean_square)
        for entry in self._trained:
            self._parameters[entry.name].requires_grad_(True)
        self._velocities: Values = {}
        self._split(first)

    def _choose(self, op: Op, choice: Any, tau: float, mean_square: Mapping[str, float]) -> None:
        torch, options, graph = self._torch, self._options, self._net.graph
        if choice.weights:
            x = graph[op.inputs[0]]
            square = mean_square.get(x.name, 0.0) or expected_mean_square(x)
            scales = torch.from_numpy(self._net.weight_scales(op))
            mask = None
            if choice.channels:
                mask = torch.zeros(graph[op.inputs[1]].shape[-1])
                mask[list(choice.channels)] = 1.0
            factor = (1 / square if options.normalize else 1.0) / scales**2
            self._trained.append(Trained(op.inputs[1], factor, tau * options.batch, 0.0, mask))
        if choice.bias:
            out = graph[op.outputs[0]]
            span = 255 * out.q.scale0 if out.dtype == "int8" else 0.0
            limit = options.bound * options.batch * span
            self._trained.append(Trained(op.inputs[2], 1.0, 0.0, limit, None))

    def _split(self, trained: list[str]) -> None:
        """Operators before the first trained layer run once a sample."""
        names = [op.name for op in self._net.ops]
        cut = min((names.index(name) for name in trained), default=len(names))
        self._before, self._after = self._net.ops[:cut], self._net.ops[cut:]

    def prefix(self, x: Array, chunk: int = 64) -> Values:
        """What the frozen front makes of int8 samples: the tensors that the rest reads."""
        torch = self._torch
        wanted = {name for op in self._after for name in op.inputs if name}
        wanted.update(self._net.graph.outputs)
        parts: dict[str, list[Any]] = {}
        with torch.no_grad():
            for i in range(0, len(x), chunk):
                known = {self._net.graph.inputs[0]: self._net.input(x[i : i + chunk])}
                for name, value in self._net.run(known, self._parameters, self._before).items():
                    if name in wanted:
                        parts.setdefault(name, []).append(value)
        return {name: torch.cat(values) for name, values in parts.items()}

    def train(self, x: Array, y: Array, rates: Array, order: Array) -> None:
        """Take the steps; a batch uses the rate of its last sample, over the mean gradient.

        Args:
            x: int8 [N, ...].
            y: class indices [N], or int8 values at the output's scale.
        """
        front, targets = self.prefix(x), self._targets(y)
        batch = self._options.batch
        for i in range(0, len(order), batch):
            chosen = self._torch.from_numpy(order[i : i + batch].astype(np.int64))
            known = {name: value[chosen] for name, value in front.items()}
            result = self._net.result(self._net.run(known, self._parameters, self._after))
            loss = self._loss(result, targets[chosen])
            parameters = [self._parameters[entry.name] for entry in self._trained]
            gradients = self._torch.autograd.grad(loss, parameters)
            with self._torch.no_grad():
                for entry, parameter, gradient in zip(
                    self._trained, parameters, gradients, strict=True
                ):
                    self._step(entry, parameter, gradient, float(rates[i + batch - 1]))

    def _step(self, entry: Trained, parameter: Any, gradient: Any, rate: float) -> None:
        # weights are in units of int8: their gradient has a scale in it already, factor the rest
        step = gradient * entry.factor * rate
        if entry.mask is not None:
            step = step * entry.mask
        if entry.tau > 0:
            held = parameter if entry.mask is None else parameter * entry.mask
            tau = entry.tau * min(1.0, rate / float(FULL_TAU_RATE))
            limit = tau * max(float(held.norm()), 1.0)
            size = float(step.norm())
            if size > limit:
                step = step * (limit / size)
        if entry.limit > 0:
            step = step.clamp(-entry.limit, entry.limit)
        if self._options.momentum > 0:
            step = step + self._options.momentum * self._velocities.get(entry.name, 0.0)
            self._velocities[entry.name] = step
        if self._options.weight_decay > 0 and parameter.dim() > 1:
            held = parameter if entry.mask is None else parameter * entry.mask
            step = step + rate * self._options.weight_decay * held
        parameter.sub_(step)
        if parameter.dim() > 1:
            parameter.clamp_(-127.0, 127.0)

    def _targets(self, y: Array) -> Any:
        if self._options.labels:
            return self._torch.from_numpy(y.astype(np.int64))
        tensor = self._net.graph[self._net.graph.outputs[0]]
        values = (y.astype(np.float32) - tensor.q.zero_point) * np.float32(tensor.q.scale0)
        return self._torch.from_numpy(values.reshape(-1, *tensor.shape[1:]))

    def _loss(self, result: Any, targets: Any) -> Any:
        functional = self._torch.nn.functional
        if self._options.labels:
            smoothing = self._options.label_smoothing
            return functional.cross_entropy(result, targets, label_smoothing=smoothing)
        return functional.mse_loss(result, targets)

    def evaluate(self, x: Array, y: Array) -> float:
        """Accuracy in [0, 1], or the mean squared error in real units."""
        with self._torch.no_grad():
            values = self._net.run(self.prefix(x), self._parameters, self._after)
            result = self._net.result(values)
            if self._options.labels:
                return float((result.argmax(1).numpy() == y).mean())
            return float(self._loss(result, self._targets(y)))
