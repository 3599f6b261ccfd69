"""The backward operators of one forward operator, recorded and run in NumPy.

In: a graph with one operator, values of its tensors, an error of its output. Out: the emitted
operators in a graph of their own, and the errors they contribute. Must not know: autodiff.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.support.ckernel import Case
from tests.support.conformance import run_graph
from tests.support.tflite_writer import Array
from tinytrain.ir import Attr, Graph, Op, Phase, Role, Tensor
from tinytrain.ops.base import Error, Step, Trained, TrainedBias, definition

ERROR_SCALE = np.float32(0.0173)
STEPS = 8
RATE = 1e-4
Shadow = Callable[..., Array]


class Recorder:
    """A gradient builder (`ops.base.GradBuilder`) for one operator; its activations need errors."""

    def __init__(
        self,
        graph: Graph,
        trained: Mapping[str, Trained] | None = None,
        bias: TrainedBias | None = None,
    ) -> None:
        self.graph = graph
        self.contributions: dict[str, list[Error]] = {}
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self._trained, self._bias = dict(trained or {}), bias
        self._streams = 0
        self._names = 0
        out = graph.ops[-1].outputs[0]
        tensor = self.new_tensor("given", graph[out].shape)
        self.given = Error(tensor, self.new_tensor("given_scale", (1,), "float32"), 0.5)
        self.state("first_scale", np.ones(1, np.float32))

    @property
    def first_scale(self) -> str:
        return "first_scale"

    def needs_error(self, name: str) -> bool:
        return bool(name) and self.graph[name].data is None

    def trained(self, name: str) -> Trained | None:
        return self._trained.get(name)

    def trained_bias(self, op: Op) -> TrainedBias | None:
        return self._bias

    def error_of(self, name: str) -> Error:
        assert name == self.graph.ops[-1].outputs[0]
        return self.given

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
        name = f"{kind}_{len(self.ops)}"
        self.ops.append(Op(kind, name, tuple(inputs), tuple(outputs), attrs, phase))

    def new_tensor(self, tag: str, shape: tuple[int, ...], dtype: str = "int8") -> str:
        self._names += 1
        name = f"{tag}_{self._names}"
        self.tensors[name] = Tensor(name, shape, dtype)
        return name

    def new_error(self, like: str, tag: str, shape: tuple[int, ...] | None = None) -> Error:
        tensor = self.new_tensor(tag, self.graph[like].shape if shape is None else shape)
        return Error(tensor, self.new_tensor(f"{tag}_scale", (1,), "float32"))

    def new_range(self, tag: str) -> str:
        name = self.new_tensor(f"{tag}_range", (1,), "float32")
        data = np.zeros(1, np.float32)
        self.tensors[name] = replace(self.tensors[name], role=Role.STATE, data=data)
        return name

    def stream(self) -> int:
        self._streams += 1
        return self._streams

    def state(self, name: str, data: Array) -> str:
        """Add a state tensor that is there before training."""
        self.tensors[name] = Tensor(name, data.shape, data.dtype.name, Role.STATE, data=data)
        return name

    def add_error(self, name: str, error: Error) -> None:
        assert self.needs_error(name)
        self.contributions.setdefault(name, []).append(error)


@dataclass(frozen=True)
class Backward:
    """Emitted operators, and all values after they ran.

    Attributes:
        graph: the forward graph's tensors and the new ones; only the emitted operators.
        before, after: for each operator the values of its inputs and outputs when it last ran.
        values: by name, after the last run.
        contributions: forward tensor -> its errors.
        given: the error of the output.
        step: the last one.
    """

    graph: Graph
    before: tuple[Mapping[str, Array], ...]
    after: tuple[Mapping[str, Array], ...]
    values: Mapping[str, Array]
    contributions: Mapping[str, Sequence[Error]]
    given: Error
    step: Step

    def cases(self) -> list[Case]:
        """The emitted operators as they ran last."""
        return [
            Case(op, self.graph, before, after, self.step)
            for op, before, after in zip(self.graph.ops, self.before, self.after, strict=True)
        ]

    def real(self, error: Error) -> Array:
        """An error in real units, float64."""
        scale = float(self.values[error.scale][0]) * error.gain
        return self.values[error.tensor].astype(np.float64) * scale


def run_backward(
    recorder: Recorder,
    forward: Mapping[str, Array],
    error: Array,
    *,
    apply: bool = True,
    rate: float = RATE,
) -> Backward:
    """Emit and run the backward pass some times, so that the ranges settle.

    Args:
        forward: values of the forward tensors.
        error: int8 error of the output.
        apply: whether the last two steps move weights; the others calibrate.
        rate: learning rate.
    """
    op = recorder.graph.ops[-1]
    definition(op).grad(op, recorder)
    tensors = {**recorder.graph.tensors, **recorder.tensors}
    graph = replace(recorder.graph, tensors=tensors, ops=tuple(recorder.ops))
    values = {n: t.data for n, t in tensors.items() if t.data is not None}
    values.update(forward)
    values[recorder.given.tensor] = error
    values[recorder.given.scale] = np.array([ERROR_SCALE], np.float32)
    runs: list[tuple[dict[str, Array], dict[str, Array]]] = []
    step = Step()
    for index in range(STEPS):
        step = Step(7, index, np.float32(rate), apply and index >= STEPS - 2)
        runs = [run_op(graph, emitted, values, step) for emitted in graph.ops]
    for name, errors in recorder.contributions.items():
        for contributed in errors:
            assert values[contributed.tensor].shape == recorder.graph[name].shape
    before, after = zip(*runs, strict=True) if runs else ((), ())
    return Backward(graph, before, after, values, recorder.contributions, recorder.given, step)


def run_op(
    graph: Graph, op: Op, values: dict[str, Array], step: Step
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Run one operator in `values`; returns its inputs and outputs."""
    given = {name: values[name].copy() for name in op.inputs if name}
    rules = definition(op)
    inputs = [given[name] if name else None for name in op.inputs]
    results = rules.run(op, graph, inputs, step)  # type: ignore[arg-type]
    for name, value, shape in zip(op.outputs, results, rules.shape(op, graph), strict=True):
        assert value.shape == shape == graph[name].shape, (op.kind, name, value.shape, shape)
        assert value.dtype == np.dtype(graph[name].dtype), (op.kind, name)
        values[name] = value
    return given, {name: values[name] for name in op.outputs}


def random_error(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """int8 values that fill their range well."""
    values = np.clip(np.round(rng.normal(0.0, 45.0, shape)), -127, 127)
    return np.asarray(values, np.int8)


def open_between(low: int, high: int) -> Callable[[Array], Array]:
    """The clamp mask for outputs strictly between two bounds."""
    return lambda y: np.asarray((y > low) & (y < high))


def check_gradients(
    graph: Graph,
    x: Array,
    shadow: Shadow,
    mask: Callable[[Array], Array] = lambda y: np.ones(y.shape, bool),
    *,
    seed: int = 0,
    cosine: float = 0.99,
    size: float = 0.05,
) -> Backward:
    """Compare the last operator's errors with finite differences of its float shadow.

    Args:
        graph: its last operator is tested.
        x: the graph's input.
        shadow: real operands -> real output, without the clamp.
        mask: int8 output -> where the clamp did not act.
        cosine, size: least similarity, and largest relative difference of the sizes.
    """
    values = run_graph(graph, x)
    op = graph.ops[-1]
    out = graph[op.outputs[0]]
    error = random_error(np.random.default_rng(seed), out.shape)
    result = run_backward(Recorder(graph), values, error)
    wanted = result.real(result.given) * mask(values[out.name])
    operands = {name: _dequantized(graph, values, name) for name in op.inputs if name}
    assert result.contributions
    for name, errors in result.contributions.items():
        ours = np.sum([result.real(e) for e in errors], axis=0)

        def moved(value: Array, name: str = name) -> Array:
            given = {**operands, name: value}
            return shadow(*(given[n] for n in op.inputs if n)).reshape(wanted.shape)

        theirs = finite_differences(moved, operands[name], wanted)
        assert_similar(ours, theirs, cosine, size)
    return result


def _dequantized(graph: Graph, values: Mapping[str, Array], name: str) -> Array:
    quant = graph[name].q
    return (values[name].astype(np.float64) - quant.zero_point) * quant.scale0


def finite_differences(f: Callable[[Array], Array], x: Array, weights: Array) -> Array:
    """d sum(weights * f(x)) / dx by central differences, float64."""
    width = 1e-5 * max(1e-3, float(np.max(np.abs(x))))
    gradient = np.zeros(x.size)
    for i in range(x.size):
        moved = x.reshape(-1).copy()
        ends = []
        for side in (width, -width):
            moved[i] = x.reshape(-1)[i] + side
            ends.append(float(np.sum(weights * f(moved.reshape(x.shape)))))
        gradient[i] = (ends[0] - ends[1]) / (2.0 * width)
    return gradient.reshape(x.shape)


def assert_similar(ours: Array, theirs: Array, cosine: float = 0.99, size: float = 0.05) -> None:
    """Direction and size agree."""
    assert ours.shape == theirs.shape
    norm = float(np.linalg.norm(theirs))
    assert norm > 0.0
    reached = float(np.sum(ours * theirs)) / (float(np.linalg.norm(ours)) * norm)
    assert reached >= cosine, f"cosine {reached}"
    ratio = float(np.sum(ours * theirs)) / norm**2
    assert abs(ratio - 1.0) < size, f"size off by {ratio}"
