"""`tinytrain verify`: our forward pass against TFLite's interpreters, tensor by tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from tinytrain.cli.options import data_option, json_option, model_argument
from tinytrain.cli.output import print_json, print_table
from tinytrain.interp import Interpreter
from tinytrain.ir import Graph, Op
from tinytrain.numeric.quantize import dequantize
from tinytrain.pipeline import read_data
from tinytrain.reader import read
from tinytrain.toolchain.tflite_interpreter import (
    LITERT,
    TFLITE_RUNTIME,
    TfliteInterpreter,
    load_interpreters,
)
from tinytrain.train import TrainOptions

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


@click.command(short_help="Compare the forward pass with TFLite, to the bit.")
@model_argument
@data_option(required=False, why="; x_test is used, random inputs otherwise")
@click.option(
    "--samples", type=click.IntRange(1, 10_000), default=20, show_default=True, metavar="N"
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@json_option
@click.pass_context
def verify(
    ctx: click.Context, model: Path, data: Path | None, samples: int, seed: int, as_json: bool
) -> None:
    """Compare every tensor of the forward pass with an installed TFLite interpreter.

    They must be equal to the bit; the exit code is 1 otherwise.

    \b
    Example: tinytrain verify model.tflite --data data.npz
    """
    graph = read(model)
    judges = load_interpreters(model.read_bytes())
    inputs = _inputs(graph, data, samples, seed)
    rows = compare(graph, judges, inputs)
    equal = not any(row.different for row in rows)
    judged = [row for row in rows if row.judge]
    if as_json:
        print_json(
            {
                "model": model.name,
                "samples": len(inputs),
                "interpreters": [{"name": j.name, "version": j.version} for j in judges],
                "tensors": len(rows),
                "compared": len(judged),
                "equal": equal,
                "rows": [asdict(row) for row in rows],
            }
        )
    else:
        table = [
            (row.tensor, row.operator, row.judge or "-", row.elements, row.different, row.largest)
            for row in rows
        ]
        print_table(
            ("tensor", "operator", "compared with", "elements", "different", "largest"), table
        )
        names = " and ".join(f"{judge.name} {judge.version}" for judge in judges)
        verdict = "equal" if equal else "NOT EQUAL"
        click.echo(
            f"\n{verdict}: {len(judged)} of {len(rows)} tensors compared on {len(inputs)} samples "
            f"with {names}"
        )
    ctx.exit(0 if equal else 1)


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


def _inputs(graph: Graph, data: Path | None, samples: int, seed: int) -> Array:
    tensor = graph[graph.inputs[0]]
    if data is not None:
        return read_data(data, graph, TrainOptions()).x_test[:samples]
    shape = (samples, *tensor.shape[1:])
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


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
    doubts: set[str] = set()
    for op in graph.ops:
        if judge == LITERT and (op.kind == "fully_connected" or doubts.intersection(op.inputs)):
            doubts.update(op.outputs)
        if judge == TFLITE_RUNTIME and op.kind in IN_PLACE:
            doubts.update(_same_memory(graph, op))
    return doubts


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
