"""`tinytrain plan`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tinytrain.advice import Candidate
from tinytrain.advice import advise as find_candidates
from tinytrain.boards import get_board
from tinytrain.cli.options import board_option, data_option, json_option, training_options
from tinytrain.cli.output import print_fields, print_json, refuse_overwriting, write_file
from tinytrain.cli.search import with_scheme
from tinytrain.memory.html_page import Bar, Saving, render_html
from tinytrain.memory.report import memory_map
from tinytrain.memory.svg_map import render_svg
from tinytrain.memory.text_map import render_text
from tinytrain.pipeline import Fit, Training, fit, prepare

EXACT_SECONDS = 15.0


@click.command(short_help="Does it fit the board? What takes the memory?")
@training_options
@board_option
@data_option(required=False, why="; for the scheme auto")
@click.option(
    "--svg",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Draw the memory map: address against time, a rectangle a tensor.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a page of its own: sizes, map, peak, what giving up would save, tensors.",
)
@click.option(
    "--advise",
    is_flag=True,
    help="Plan some smaller schemes too: what would giving up a part save? Takes seconds.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Search offsets exactly, where the short search of every plan did not end.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0.0, min_open=True, max=3600.0),
    default=EXACT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="When --exact gives up.",
)
@json_option
def plan(
    training: Training,
    board_name: str,
    data: Path | None,
    svg: Path | None,
    html: Path | None,
    advise: bool,
    exact: bool,
    time_limit: float,
    as_json: bool,
) -> None:
    """Say whether a model can be trained on a board, and what takes the memory.

    \b
    Example: tinytrain plan model.tflite --board mps2-an500 --scheme bias:20 --classes 2
    """
    for path in (svg, html):
        refuse_overwriting(path, training.model, data)
    board = get_board(board_name)
    training = with_scheme(training, data, board_name)
    prepared = prepare(training, exact_s=time_limit if exact else 0.0)
    sizes = fit(prepared, board)
    memory = memory_map(prepared.plan)
    candidates = find_candidates(prepared) if advise or html is not None else ()
    title = f"{sizes.model}, {sizes.scheme}, {sizes.board}"
    if svg is not None:
        write_file(svg, render_svg(memory, title).encode("utf-8"))
    if html is not None:
        page = render_html(memory, title, bars_of(sizes), [_saving(c) for c in candidates])
        write_file(html, page.encode("utf-8"))
    if as_json:
        advice = {"advice": [c.as_dict() for c in candidates]} if advise else {}
        print_json(sizes.as_dict() | advice)
        return
    click.echo(render_text(memory))
    print_fit(sizes)
    if advise:
        print_advice(candidates)


def print_fit(sizes: Fit) -> None:
    """Print the sizes of a plan beside those of its board."""
    print_fields(
        {
            "arena": f"{sizes.arena_bytes:,} bytes, lower bound {sizes.lower_bound_bytes:,}, "
            f"proven {sizes.proven_bound_bytes:,}, gap {sizes.gap_bytes:,}, "
            f"inference alone {sizes.inference_arena_bytes:,}",
            "trained state": f"{sizes.trained_bytes:,} bytes",
            "batch buffers": f"{sizes.buffer_bytes:,} bytes",
            "SRAM in all": f"{sizes.sram_bytes:,} of {sizes.board_sram_bytes:,} bytes",
            "flash, estimated": f"{sizes.flash_bytes:,} of {sizes.board_flash_bytes:,} bytes",
            "multiply-adds": f"{sizes.macs_forward:,} forward, {sizes.macs_backward:,} backward",
            f"fits {sizes.board}": sizes.fits,
        }
    )


def print_advice(candidates: Sequence[Candidate]) -> None:
    """Print what may be given up, and what that saves."""
    if not candidates:
        click.echo("\nnothing but the head is trained: there is nothing to give up")
        return
    click.echo(f"\n{'SRAM':>9} {'arena':>9} {'states':>9}  saved without")
    for c in candidates:
        click.echo(
            f"{c.saved_bytes:>9,} {c.saved_arena_bytes:>9,} {c.saved_state_bytes:>9,}  {c.what}"
        )


def bars_of(sizes: Fit) -> tuple[Bar, Bar]:
    """What takes the board's memories."""
    parts = {
        "arena": sizes.arena_bytes,
        "trained state": sizes.trained_bytes,
        "batch buffers": sizes.buffer_bytes,
        "stack": sizes.stack_bytes,
    }
    rest = sizes.sram_bytes - sum(parts.values())
    return (
        Bar("SRAM", (*parts.items(), ("runtime, estimated", rest)), sizes.board_sram_bytes),
        Bar("Flash", (("program and constants", sizes.flash_bytes),), sizes.board_flash_bytes),
    )


def _saving(candidate: Candidate) -> Saving:
    return Saving(
        candidate.what,
        candidate.saved_bytes,
        candidate.saved_arena_bytes,
        candidate.saved_state_bytes,
    )
