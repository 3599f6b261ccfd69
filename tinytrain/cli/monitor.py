"""`tinytrain monitor`."""

from __future__ import annotations

import time
from dataclasses import asdict

import click

from tinytrain.cli.device import Choice, connect, device_options
from tinytrain.cli.options import json_option
from tinytrain.cli.output import print_fields, print_json


@click.command(short_help="Show what a device is and what it has done.")
@device_options
@click.option(
    "--every", type=click.FloatRange(0.1), metavar="SECONDS",
    help="Go on, until Ctrl-C; otherwise once.",
)  # fmt: skip
@json_option
def monitor(device: Choice, every: float | None, as_json: bool) -> None:
    """Show a device's model and its counters: steps, frames, damaged frames, saves, wear.

    The device goes on with whatever it does; nothing of its state changes.

    \b
    Example: tinytrain monitor --port /dev/ttyACM0 --every 2
    """
    with connect(device) as link:
        hello = asdict(link.hello)
        counters = asdict(link.statistics())
        if as_json:
            print_json({"hello": hello, "statistics": counters})
        else:
            print_fields(hello)
            click.echo("")
            print_fields(counters)
        while every is not None:
            time.sleep(every)
            counters = asdict(link.statistics())
            if as_json:
                print_json({"statistics": counters})
            else:
                click.echo("  ".join(f"{name} {value:,}" for name, value in counters.items()))
