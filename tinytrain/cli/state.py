"""`tinytrain state pull | push | diff`: trained states between devices and files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import click
import numpy as np

from tinytrain.cli.device import Choice, connect, device_options
from tinytrain.cli.options import json_option
from tinytrain.cli.output import (
    print_fields,
    print_json,
    print_table,
    refuse_overwriting,
    write_file,
)
from tinytrain.errors import InputError
from tinytrain.toolchain.generated import Generated, load_generated
from tinytrain.toolchain.link import Link
from tinytrain.toolchain.state_file import StateFile, decode_state, encode_state

file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@click.group(short_help="Trained states: from a device, to a device, compare.")
def state() -> None:
    """Move trained states between devices and files.

    \b
    Example: tinytrain state pull --port /dev/ttyACM0 learned.state
    """


@state.command(short_help="Read the device's state into a file.")
@file_argument
@device_options
@json_option
def pull(file: Path, device: Choice, as_json: bool) -> None:
    """Read the device's trained state into FILE."""
    refuse_overwriting(file)
    if file.exists():
        _read(file)  # anything but an older state is left alone
    with connect(device) as link:
        found = _state_of(link)
    write_file(file, encode_state(found))
    _report(found, as_json, {"file": str(file)})


@state.command(short_help="Write a file's state into the device.")
@file_argument
@device_options
@click.option("--no-save", is_flag=True, help="Keep it in RAM only.")
@json_option
def push(file: Path, device: Choice, no_save: bool, as_json: bool) -> None:
    """Write the state in FILE into the device, which must run the same program, and save it."""
    given = _read(file)
    with connect(device) as link:
        _check(given, link.hello.fingerprint, file)
        link.set_state(given.state, step_index=given.step_index, seed=given.seed)
        saved = link.save().sequence if link.hello.has_storage and not no_save else None
    _report(given, as_json, {"saved": saved})


@state.command(short_help="Compare the device's state with a file's.")
@file_argument
@device_options
@json_option
@click.pass_context
def diff(ctx: click.Context, file: Path, device: Choice, as_json: bool) -> None:
    """Compare the device's state with the one in FILE; with --project, tensor by tensor.

    The exit code is 1 where they differ.
    """
    given = _read(file)
    with connect(device) as link:
        _check(given, link.hello.fingerprint, file)
        found = _state_of(link)
    project = load_generated(device.project) if device.project is not None else None
    rows = compare(given.state, found.state, project)
    equal = given.state == found.state
    if as_json:
        keys = ("tensor", "elements", "different", "largest")
        print_json({"equal": equal, "tensors": [dict(zip(keys, r, strict=True)) for r in rows]})
    else:
        print_table(("tensor", "elements", "different", "largest difference"), rows)
        click.echo("equal" if equal else "NOT EQUAL")
    ctx.exit(0 if equal else 1)


def compare(a: bytes, b: bytes, project: Generated | None) -> list[tuple[str, int, int, float]]:
    """Tensor, elements, how many differ, by how much; one row of bytes without a project."""
    if project is None:
        gap = np.abs(np.frombuffer(a, np.uint8).astype(int) - np.frombuffer(b, np.uint8))
        return [("(bytes)", len(a), int(np.count_nonzero(gap)), float(gap.max(initial=0)))]
    rows = []
    for place in project.tensors.values():
        count = int(np.prod(place.shape, dtype=np.int64))
        end = place.offset + count * np.dtype(place.dtype).itemsize
        if place.role != "state" or end > project.state_bytes:
            continue
        one, other = (
            np.frombuffer(data[place.offset : end], place.dtype).astype(np.float64)
            for data in (a, b)
        )
        gap = np.abs(one - other)
        differs = int(np.count_nonzero(one != other))
        rows.append((place.name, count, differs, float(np.nanmax(gap, initial=0.0))))
    return rows


def _read(file: Path) -> StateFile:
    if file.exists() and not file.is_file():  # a pipe would be waited for
        raise InputError(
            "bad-state-file", "state", "not a regular file", where=str(file),
            hint="`tinytrain state pull` writes state files",
        )  # fmt: skip
    return decode_state(file.read_bytes(), str(file))


def _state_of(link: Link) -> StateFile:
    step_index = link.statistics().step_index
    return StateFile(link.hello.fingerprint, step_index, link.hello.seed, link.state())


def _check(given: StateFile, fingerprint: int, file: Path) -> None:
    if given.fingerprint != fingerprint:
        raise InputError(
            "other-program",
            "state",
            f"the state is one of program {given.fingerprint:08x}, the device runs "
            f"{fingerprint:08x}",
            where=str(file),
            hint="a state fits the program (model, scheme, calibration) it was trained with",
        )


def _report(found: StateFile, as_json: bool, more: dict[str, Any]) -> None:
    document = {
        "fingerprint": f"{found.fingerprint:08x}",
        "state_bytes": len(found.state),
        "step_index": found.step_index,
        "state_sha256": hashlib.sha256(found.state).hexdigest(),
        **more,
    }
    if as_json:
        print_json(document)
    else:
        print_fields({key: value for key, value in document.items() if value is not None})
