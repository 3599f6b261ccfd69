"""`tinytrain inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from tinytrain.analysis.inspect import TensorInfo, summarize
from tinytrain.cli.options import json_option, model_argument
from tinytrain.cli.output import print_fields, print_json, print_table, text
from tinytrain.reader import read
from tinytrain.train.layers import layers_of


@click.command(short_help="Show operators, shapes, multiply-adds, bytes.")
@model_argument
@json_option
def inspect(model: Path, as_json: bool) -> None:
    """Show a model: operators, shapes, multiply-adds, bytes, quantization.

    A model that is not supported is refused with a table of every operator in the way. The numbers
    of layers, and names, are those of scheme files; the last layer is the head.

    \b
    Example: tinytrain inspect model.tflite
    """
    graph = read(model)
    summary = summarize(graph)
    layers = {layer.op.name: layer.index for layer in layers_of(graph)}
    if as_json:
        document = summary.as_dict()
        for row in document["rows"]:
            row["layer"] = layers.get(row["name"])
        print_json({"model": model.name, "supported": True, **document})
        return
    rows = [
        (
            row.index,
            layers.get(row.name, ""),
            row.operator,
            row.name,
            row.output_shape,
            row.macs,
            row.weight_bytes,
            row.activation_bytes,
            row.quantization,
        )
        for row in summary.rows
    ]
    headers = ("#", "layer", "operator", "name", "output", "MACs", "weights", "activation", "scale")
    print_table(headers, rows)
    fields = {f"input {tensor.name}": _describe(tensor) for tensor in summary.inputs}
    fields |= {f"output {tensor.name}": _describe(tensor) for tensor in summary.outputs}
    click.echo()
    print_fields(
        {
            **fields,
            "multiply-adds": summary.macs,
            "parameters": summary.parameters,
            "weight bytes": summary.weight_bytes,
            "largest activation": summary.largest_activation_bytes,
        }
    )


def _describe(tensor: TensorInfo) -> str:
    shape = f"{tensor.dtype} {text(tensor.shape)}"
    if tensor.scale is None:
        return shape
    cut = f", float32 {tensor.float_name!r} in the file" if tensor.float_name else ""
    return f"{shape}, scale {tensor.scale:.6g}, zero point {tensor.zero_point}{cut}"
