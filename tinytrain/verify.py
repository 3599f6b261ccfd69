"""Our forward pass against TFLite's interpreters, tensor by tensor.

In: a graph as read, interpreters with the same model, samples. Out: one `Comparison` a tensor. Each
interpreter is known to be wrong somewhere; a tensor is judged by the first that can be trusted with
it. Must not know files and terminals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.interp import Interpreter
from tinytrain.ir import Graph, Op
from tinytrain.numeric.quantize import dequantize
from tinytrain.toolchain.tflite_interpreter import LITERT, TFLITE_RUNTIME, TfliteInterpreter

Array = npt.NDArray[Any]
IN_PLACE = ("add", "mul", "softmax")


@dataclass(frozen=True)
class Comparison:
    """One tensor over all samples.

    Attributes:
        judge: the interpreter it was compared with; "" if none here can be trusted with it.
        different: elements that differ.
        largest: largest difference, in steps of the tensor's scale.
    """

    tensor: str
    operator: str
    judge: str
    elements: int
    different: int
    largest: int


def compare(
    graph: Graph, judges: Sequence[TfliteInterpreter], inputs: Array
) -> tuple[Comparison, ...]:
    """Run ours and theirs on int8 inputs [N, ...]; one row a tensor that an operator makes."""
    source = {out: graph[out].source for op in graph.ops for out in op.outputs}
    chosen = _choose_judges(graph, judges)
    different, largest = dict.fromkeys(source, 0), dict.fromkeys(source, 0)
    interpreter = Interpreter(graph)
    for x in inputs:
        ours = interpreter.infer(x)
        for judge in judges:
            names = [name for name, chosen_judge in chosen.items() if chosen_judge is judge]
            indices = [index for name in names if (index := source[name]) is not None]
            theirs = judge.run(_as_file_input(graph, judge, x), indices)
            for name, index in zip(names, indices, strict=True):
                gap = np.abs(ours[name].astype(np.int64) - theirs[index].astype(np.int64))
                different[name] += int(np.count_nonzero(gap))
                largest[name] = max(largest[name], int(gap.max(initial=0)))
    return tuple(
        Comparison(
            name,
            op.kind,
            chosen[name].name if name in chosen else "",
            graph[name].size * len(inputs),
            different[name],
            largest[name],
        )
        for op in graph.ops
        for name in op.outputs
    )


def _as_file_input(graph: Graph, judge: TfliteInterpreter, x: Array) -> Array:
    """The int8 sample as the file wants it: real values where its input is float32."""
    shape, dtype = judge.input()
    tensor = graph[graph.inputs[0]]
    values = dequantize(x, tensor.q) if dtype == np.float32 else x
    return values.reshape(shape).astype(dtype)


def _choose_judges(
    graph: Graph, judges: Sequence[TfliteInterpreter]
) -> dict[str, TfliteInterpreter]:
    """Tensor -> the first interpreter that can be trusted with it."""
    chosen: dict[str, TfliteInterpreter] = {}
    for judge in judges:
        doubts = _doubts(graph, judge.name)
        for op in graph.ops:
            for name in op.outputs:
                if name not in doubts and graph[name].source is not None:
                    chosen.setdefault(name, judge)
    return chosen


def _doubts(graph: Graph, judge: str) -> set[str]:
    """Tensors that an interpreter is known to report otherwise than the specification says."""
    is_wrong = {LITERT: _rounds_once, TFLITE_RUNTIME: _skips_rows}.get(judge)
    doubts: set[str] = set()
    for op in graph.ops:
        if is_wrong is not None and (is_wrong(graph, op) or doubts.intersection(op.inputs)):
            doubts.update(op.outputs)
    if judge == TFLITE_RUNTIME:
        for op in graph.ops:
            if op.kind in IN_PLACE:
                doubts.update(_same_memory(graph, op))
    return doubts


def _rounds_once(graph: Graph, op: Op) -> bool:
    """`ai-edge-litert` requantizes FULLY_CONNECTED with one rounding, not two."""
    del graph
    return op.kind == "fully_connected"


def _skips_rows(graph: Graph, op: Op) -> bool:
    """`tflite-runtime` takes the first dimension for all rows where each channel has a scale."""
    if op.kind != "fully_connected":
        return False
    weights, out = graph[op.inputs[1]], graph[op.outputs[0]]
    return len(weights.q.scale) > 1 and len(out.shape) > 2


def _same_memory(graph: Graph, op: Op) -> set[str]:
    """The inputs of an in-place operator, and what they were reshaped from."""
    found: set[str] = set()
    waiting = [name for name in op.inputs if name]
    while waiting:
        name = waiting.pop()
        found.add(name)
        producer = graph.producers.get(name)
        if producer is not None and producer.kind == "reshape":
            waiting.append(producer.inputs[0])
    return found
