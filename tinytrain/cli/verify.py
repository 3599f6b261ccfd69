"""`tinytrain verify`: our forward pass against TFLite's interpreters, tensor by tensor."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from tinytrain.cli.options import data_option, json_option, model_argument
from tinytrain.cli.output import print_json, print_table
from tinytrain.ir import Graph
from tinytrain.pipeline import read_data
from tinytrain.reader import read
from tinytrain.toolchain.tflite_interpreter import load_interpreters
from tinytrain.train import TrainOptions
from tinytrain.verify import compare

Array = npt.NDArray[Any]


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


def _inputs(graph: Graph, data: Path | None, samples: int, seed: int) -> Array:
    tensor = graph[graph.inputs[0]]
    if data is not None:
        return read_data(data, graph, TrainOptions()).x_test[:samples]
    shape = (samples, *tensor.shape[1:])
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
