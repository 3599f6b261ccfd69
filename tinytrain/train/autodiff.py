"""Compile-time differentiation: a forward graph and a scheme become a training graph.

In: the inference graph (loss attached), a scheme, options, calibration. Out: one graph with the
forward, backward and (for batches) apply phases. Errors exist only where something upstream is
trained. The gradient rules themselves stand with the operators. Source: DESIGN sections 2 to 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinytrain.errors import InputError
from tinytrain.ir import Attr, Graph, Op, Phase, Role, Tensor
from tinytrain.numeric.random import NEAREST
from tinytrain.ops.base import Error, Trained, TrainedBias, definition
from tinytrain.ops.optimizer import START_BITS
from tinytrain.ops.weight_update import squared_sum
from tinytrain.train.head import expected_mean_square
from tinytrain.train.layers import layers_of
from tinytrain.train.options import TrainOptions
from tinytrain.train.scheme import Choice, Scheme


def differentiate(
    graph: Graph, scheme: Scheme, options: TrainOptions, mean_square: Mapping[str, float]
) -> Graph:
    """Return the training graph; its outputs are the inference result and the loss.

    Args:
        graph: from `attach_loss`.
        scheme: trained layers by operator name.
        mean_square: tensor -> mean of real^2 (calibration), for rho; estimated where missing.

    Raises:
        InputError: a trained tensor is shared by two layers.
    """
    if not scheme.choices:
        return graph
    builder = _Builder(graph, scheme, options, mean_square)
    builder.start()
    for op in reversed(builder.graph.ops):
        if any(builder.has_error(name) for name in op.outputs):
            builder.enter(op)
            definition(op).grad(op, builder)
    return builder.finish()


class _Builder:
    """Collects the training graph; implements `ops.base.GradBuilder`."""

    def __init__(
        self, graph: Graph, scheme: Scheme, options: TrainOptions, mean_square: Mapping[str, float]
    ) -> None:
        self._scheme, self._options, self._mean_square = scheme, options, mean_square
        self._trained: dict[str, Trained] = {}
        self._biases: dict[str, TrainedBias] = {}
        self._tensors: dict[str, Tensor] = {}
        self._emitted: list[Op] = []
        self._errors: dict[str, list[Error]] = {}
        self._streams = 0
        self._current = "loss"
        self._loss = ""
        self.first_scale = ""
        self._names = graph
        self.graph = self._make_trainable(graph)
        self._needs_error = self._find_needs()

    def enter(self, op: Op) -> None:
        """Name what follows after this forward operator."""
        self._current = op.name

    # ---- what is trained ----

    def _make_trainable(self, graph: Graph) -> Graph:
        """Turn chosen weights and biases into states, and add their companions."""
        ops = {op.name: op for op in graph.ops}
        heads = {layer.op.name for layer in layers_of(graph) if layer.is_head}
        for choice in self._scheme.choices.values():
            op = ops[choice.op]
            if choice.weights:
                self._train_weights(graph, op, choice, is_head=op.name in heads)
            if choice.bias:
                ops[op.name] = self._train_bias(graph, op)
        kept = [ops[op.name] for op in graph.ops]
        return graph.with_ops(kept, self._tensors.values())

    def _state(self, tensor: Tensor) -> str:
        self._tensors[tensor.name] = tensor
        return tensor.name

    def _check_unshared(self, graph: Graph, name: str) -> None:
        if len(graph.consumers[name]) > 1:
            users = ", ".join(op.name for op in graph.consumers[name])
            raise InputError(
                "shared-weights",
                "train",
                f"{name} is shared by several layers and cannot be trained",
                where=users,
                hint="leave these layers out of the scheme",
            )

    def _train_weights(self, graph: Graph, op: Op, choice: Choice, *, is_head: bool) -> None:
        name = op.inputs[1]
        self._check_unshared(graph, name)
        weights = graph[name]
        assert weights.data is not None
        self._state(replace(weights, role=Role.STATE))
        options, channels = self._options, choice.channels
        part = weights.data[..., list(channels)] if channels else weights.data
        fraction = ""
        if options.weight_state == "int16":
            fraction = self._zeros(self._unique(f"{name}_fraction"), part.shape, "int8")
        elif options.weight_state == "float32":
            data = part.astype(np.float32)
            fraction = self._state(
                Tensor(self._unique(f"{name}_master"), part.shape, "float32", Role.STATE, data=data)
            )
        norms = np.array([1, squared_sum(part)], np.float32)
        bound = self._state(
            Tensor(self._unique(f"{name}_bound"), (2,), "float32", Role.STATE, data=norms)
        )
        accumulator = ""
        if options.batch > 1:
            delta = self._unique(f"{name}_delta")
            accumulator = self._zeros(delta, part.shape, "int32", Role.BUFFER)
        rho = 1.0
        if options.normalize:
            x = graph[op.inputs[0]]
            rho = 1.0 / (self._mean_square.get(x.name, 0.0) or expected_mean_square(x))
        fresh_head = is_head and options.classes is not None
        tau = 0.0 if fresh_head else options.bound * options.batch
        velocity, bits = self._velocity(name, part.shape)
        self._trained[name] = Trained(
            name,
            fraction,
            bound,
            options.weight_state,
            channels,
            rho,
            tau,
            accumulator,
            options.batch,
            options.optimizer,
            velocity,
            bits,
        )

    def _velocity(self, name: str, shape: tuple[int, ...]) -> tuple[str, str]:
        """States of the momentum of a weight tensor: velocities, their fraction bits."""
        optimizer = self._options.optimizer
        if optimizer.momentum_q16 == 0:
            return "", ""
        velocity = self._zeros(self._unique(f"{name}_velocity"), shape, optimizer.velocity)
        bits = np.full(2, START_BITS[optimizer.velocity], np.int32)
        return velocity, self._state(
            Tensor(self._unique(f"{velocity}_bits"), (2,), "int32", Role.STATE, data=bits)
        )

    def _train_bias(self, graph: Graph, op: Op) -> Op:
        if len(op.inputs) > 2 and op.inputs[2]:
            name = op.inputs[2]
            self._check_unshared(graph, name)
            self._state(replace(graph[name], role=Role.STATE))
        else:
            channels = graph[op.outputs[0]].shape[-1]
            name = self._zeros(self._unique(f"{op.name}_bias"), (channels,), "int32")
            op = replace(op, inputs=(*op.inputs[:2], name))
        accumulator = ""
        if self._options.batch > 1:
            shape = self._tensors[name].shape
            delta = self._unique(f"{name}_delta")
            accumulator = self._zeros(delta, shape, "int32", Role.BUFFER)
        momentum = self._options.optimizer.momentum_q16
        shape = self._tensors[name].shape
        velocity = self._zeros(self._unique(f"{name}_velocity"), shape, "int32") if momentum else ""
        self._biases[op.name] = TrainedBias(
            name, accumulator, self._options.bound, momentum, velocity
        )
        return op

    def _zeros(self, name: str, shape: tuple[int, ...], dtype: str, role: Role = Role.STATE) -> str:
        return self._state(Tensor(name, shape, dtype, role, data=np.zeros(shape, dtype)))

    def _find_needs(self) -> frozenset[str]:
        """Tensors upstream of which something is trained."""
        needs: set[str] = set()
        for op in self.graph.ops:
            trains = op.name in self._biases or any(n in self._trained for n in op.inputs)
            if trains or needs.intersection(op.inputs):
                needs.update(op.outputs)
        return frozenset(needs)

    # ---- GradBuilder ----

    def needs_error(self, name: str) -> bool:
        return name in self._needs_error

    def has_error(self, name: str) -> bool:
        """Whether an error has reached this tensor."""
        return name in self._errors

    def trained(self, name: str) -> Trained | None:
        return self._trained.get(name)

    def trained_bias(self, op: Op) -> TrainedBias | None:
        return self._biases.get(op.name)

    def stream(self) -> int:
        if self._options.rounding == "nearest":
            return NEAREST
        self._streams += 1
        return self._streams

    def _unique(self, name: str) -> str:
        fresh = self._names.fresh_name(name)
        placeholder = Tensor(fresh, (), "int8")
        self._names = replace(self._names, tensors={**self._names.tensors, fresh: placeholder})
        return fresh

    def new_tensor(self, tag: str, shape: tuple[int, ...], dtype: str = "int8") -> str:
        name = self._unique(f"{self._current}_{tag}")
        self._tensors[name] = Tensor(name, shape, dtype)
        return name

    def new_error(self, like: str, tag: str, shape: tuple[int, ...] | None = None) -> Error:
        tensor = self.new_tensor(tag, self.graph[like].shape if shape is None else shape)
        return Error(tensor, self.new_tensor(f"{tag}_scale", (1,), "float32"))

    def new_range(self, tag: str) -> str:
        name = self._unique(f"{self._current}_{tag}_range")
        # From 0 errors are understated, and steps small, until the first samples were seen. From a
        # value too large only rounding noise would pass, and later ranges would follow that.
        return self._zeros(name, (1,), "float32")

    def emit(
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str], /, **attrs: Attr
    ) -> None:
        self.emit_in(Phase.BACKWARD, kind, inputs, outputs, **attrs)

    def emit_in(
        self,
        phase: Phase,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        /,
        **attrs: Attr,
    ) -> None:
        name = self._unique(f"{self._current}_{kind}")
        self._emitted.append(Op(kind, name, tuple(inputs), tuple(outputs), attrs, phase))

    def add_error(self, name: str, error: Error) -> None:
        if self.needs_error(name):
            self._errors.setdefault(name, []).append(error)

    def error_of(self, name: str) -> Error:
        """The sum of the contributions so far, made by `add_errors` where there are several."""
        first, *others = self._errors[name]
        for other in others:
            first = self._sum(name, first, other)
        self._errors[name] = [first]
        return first

    def _sum(self, name: str, a: Error, b: Error) -> Error:
        total = self.new_error(name, "sum")
        amax = self.new_range("sum")
        self.emit(
            "add_errors",
            (a.tensor, a.scale, b.tensor, b.scale, amax),
            (*total[:2], amax),
            gain_a=a.gain,
            gain_b=b.gain,
            stream=self.stream(),
        )
        return total

    # ---- the two ends ----

    def start(self) -> None:
        """Emit the loss: its error starts the backward pass."""
        result = self.graph.outputs[0]
        cross_entropy = self._options.labels
        source = self.graph.producers[result].inputs[0] if cross_entropy else result
        shape = (1,) if cross_entropy else self.graph[source].shape
        dtype = "int32" if cross_entropy else "int8"
        target = self._unique("target")
        self._loss = self._unique("loss")
        self._tensors[target] = Tensor(target, shape, dtype, Role.TARGET)
        self._tensors[self._loss] = Tensor(self._loss, (1,), "float32")
        error = self.new_error(source, "error")
        self.first_scale = self.new_tensor("first_scale", (1,), "float32")
        outputs = (*error[:2], self._loss, self.first_scale)
        if cross_entropy:
            self.emit(
                "cross_entropy_error",
                (result, target),
                outputs,
                error_shape=self.graph[source].shape,
                smoothing=self._options.label_smoothing,
                stream=self.stream(),
            )
        else:
            self.emit("mean_squared_error", (result, target), outputs, stream=self.stream())
        beta = self.graph.producers[result].float("beta") if cross_entropy else 1.0
        self.add_error(source, error.times(beta))

    def finish(self) -> Graph:
        """Forward operators (with what they keep), then backward, then apply."""
        forward = list(self.graph.ops)
        for op in self._emitted:
            if op.phase is Phase.FORWARD:
                at = max(
                    i for i, f in enumerate(forward) if op.inputs[0] in (*f.inputs, *f.outputs)
                )
                maker = [i for i, f in enumerate(forward) if op.inputs[0] in f.outputs]
                forward.insert(maker[0] + 1 if maker else at, op)
        later = [op for op in self._emitted if op.phase is Phase.BACKWARD]
        last = [op for op in self._emitted if op.phase is Phase.APPLY]
        whole = self.graph.with_ops([*forward, *later, *last], self._tensors.values())
        outputs = (*self.graph.outputs, self._loss)
        return Graph(whole.name, whole.tensors, whole.ops, whole.inputs, outputs, self.graph.notes)
