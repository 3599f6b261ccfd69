"""Read a model, run our NumPy reference, and compare every tensor with the reference interpreters.

In: a model file's bytes (of `tflite_builder`), inputs. Out: the graph and its tensors, or a failed
assertion that names the first tensor that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from tests.support import referee
from tests.support.ckernel import Case
from tests.support.needs import need
from tests.support.tflite_builder import Builder, Ref
from tests.support.tflite_writer import Array
from tinytrain.ir import Graph
from tinytrain.ops.base import Step, definition
from tinytrain.reader import read

Make = Callable[[Builder, Ref], Ref]


def model_of(make: Make, shape: tuple[int, ...], scale: float = 0.05, zero_point: int = 3) -> bytes:
    """A model with one int8 input of this shape and what `make` appends to it."""
    builder = Builder()
    x = builder.input("x", shape, scale=scale, zero_point=zero_point)
    builder.output(make(builder, x))
    return builder.build()


def graph_of(make: Make, shape: tuple[int, ...], scale: float = 0.05, zero_point: int = 3) -> Graph:
    """The graph that the reader makes of `model_of`."""
    return read(model_of(make, shape, scale, zero_point))


def samples(
    rng: np.random.Generator, shape: tuple[int, ...], zero_point: int, count: int = 12
) -> Iterator[Array]:
    """int8 inputs: all low, all high, alternating extremes, all zero, near zero, uniform."""
    size = int(np.prod(shape))
    yield np.full(shape, -128, np.int8)
    yield np.full(shape, 127, np.int8)
    yield np.where(np.arange(size) % 2, -128, 127).astype(np.int8).reshape(shape)
    yield np.full(shape, zero_point, np.int8)
    for _ in range(2):
        near = rng.integers(-3, 4, shape) + zero_point
        yield np.clip(near, -128, 127).astype(np.int8)
    for _ in range(count - 6):
        yield rng.integers(-128, 128, shape, dtype=np.int8)


def run_graph(graph: Graph, x: Array, step: Step | None = None) -> dict[str, Array]:
    """All tensors of a forward graph, by name."""
    values = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    values[graph.inputs[0]] = x
    for op in graph.ops:
        given = [values[name] if name else None for name in op.inputs]
        rules = definition(op)
        results = rules.run(op, graph, given, step or Step())  # type: ignore[arg-type]
        for name, value, shape in zip(op.outputs, results, rules.shape(op, graph), strict=True):
            assert value.shape == shape == graph[name].shape, (op.kind, name)
            assert value.dtype == np.dtype(graph[name].dtype), (op.kind, name)
            values[name] = value
    return values


def assert_conforms(model: bytes, inputs: Iterable[Array]) -> None:
    """Every tensor that a referee can be trusted with is equal to the last bit."""
    need("interpreter")
    graph = read(model)
    panel = referee.Panel(model)
    assert panel.referees, panel.refused
    for x in inputs:
        ours = run_graph(graph, x)
        theirs = panel.run(x)
        assert theirs.keys() & {graph[name].source for name in graph.outputs}
        _compare(graph, ours, theirs)


def _compare(graph: Graph, ours: Mapping[str, Array], theirs: Mapping[int, Array]) -> None:
    for op in graph.ops:
        for name in op.outputs:
            source = graph[name].source
            if source is not None and source in theirs:
                wrong = np.count_nonzero(ours[name] != theirs[source].reshape(ours[name].shape))
                assert wrong == 0, f"{op.kind} {name}: {wrong} of {ours[name].size} values differ"


def conforms(
    make: Make,
    shape: tuple[int, ...],
    *,
    scale: float = 0.05,
    zero_point: int = 3,
    seed: int = 0,
    count: int = 12,
) -> None:
    """`assert_conforms` for `model_of` over `samples`."""
    model = model_of(make, shape, scale, zero_point)
    rng = np.random.default_rng(seed)
    assert_conforms(model, samples(rng, shape, zero_point, count))


def forward_cases(graph: Graph, x: Array) -> list[Case]:
    """Every operator of a forward graph with the values it reads and makes."""
    values = run_graph(graph, x)
    return [
        Case(
            op,
            graph,
            {name: values[name] for name in op.inputs if name},
            {name: values[name] for name in op.outputs},
        )
        for op in graph.ops
    ]
