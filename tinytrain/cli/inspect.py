"""`tinytrain inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from tinytrain.analysis.inspect import TensorInfo, summarize
from tinytrain.cli.options import json_option, model_argument
from tinytrain.cli.output import print_fields, print_json, print_table, text
from tinytrain.reader import read


@click.command(short_help="Show operators, shapes, multiply-adds, bytes.")
@model_argument
@json_option
def inspect(model: Path, as_json: bool) -> None:
    """Show a model: operators, shapes, multiply-adds, bytes, quantization.

    A model that is not supported is refused with a table of every operator in the way. Names in
    the list can be used in scheme files.

    \b
    Example: tinytrain inspect model.tflite
    """
    summary = summarize(read(model))
    if as_json:
        print_json({"model": model.name, "supported": True, **summary.as_dict()})
        return
    rows = [
        (
            row.index,
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
    headers = ("#", "operator", "name", "output", "MACs", "weights", "activation", "scale")
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
