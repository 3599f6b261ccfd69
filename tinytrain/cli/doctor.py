"""`tinytrain doctor`."""

from __future__ import annotations

from dataclasses import asdict

import click

from tinytrain.cli.options import json_option
from tinytrain.cli.output import print_json, print_table
from tinytrain.toolchain.doctor import diagnose


@click.command(short_help="Say which tools are here and which are missing.")
@json_option
def doctor(as_json: bool) -> None:
    """Say which tools are installed, what each is for, and how to get those that are not.

    Only the simulator needs a C compiler; only firmware needs the rest.
    """
    tools = diagnose()
    missing = [tool for tool in tools if not tool.found]
    if as_json:
        print_json({"tools": [asdict(tool) for tool in tools], "complete": not missing})
        return
    rows = [
        ("found" if tool.found else "MISSING", tool.name, tool.version, tool.why) for tool in tools
    ]
    print_table(("", "tool", "version", "what for"), rows)
    for tool in missing:
        click.echo(f"\nTo get {tool.name}: {tool.how}")
