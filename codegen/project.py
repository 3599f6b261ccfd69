"""The files of a generated project, and the one place that writes them.

In: a `Plan`, boards. Out: path -> bytes; on disk, a folder that appears at once or not at all. The
same input gives the same bytes: no time, no absolute path. Must not know how projects are built.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from codegen import manifest
from codegen.program import CProgram, build_program
from codegen.render import render
from tinytrain.boards import DEFAULT_STACK_BYTES, Board, platformio_manifest
from tinytrain.errors import InputError, InternalError
from tinytrain.memory import Plan
from tinytrain.resources import data_dir

_LIBRARIES = {
    "tt_kernels": "Kernels of tinytrain: int8 inference and training in portable C",
    "tt_runtime": "Runtime of tinytrain: runs and trains generated models",
}
LINK_PAYLOAD_MIN, LINK_PAYLOAD_MAX = 512, 2048
EMULATOR_PORT = 7447


def generate(
    plan: Plan,
    *,
    boards: Sequence[Board] = (),
    name: str | None = None,
    task: str = "",
    scheme: str = "",
    stack_bytes: int = DEFAULT_STACK_BYTES,
) -> dict[str, bytes]:
    """Generate the project of a plan.

    Args:
        boards: targets of the PlatformIO project, the first is the default; without any, only the
            libraries and the application's source are made (enough for the simulator).
        name: prefix of files and symbols, ``[a-z][a-z0-9_]*``; the graph's name unless given.
        task: what the model learns, one line for the reader of header and README.
        scheme: what is trained, one line, which the device tells over the link.
        stack_bytes: what the linker script sets aside for the stack.

    Returns:
        Path in the project (with ``/``) -> content, sorted by path.

    Raises:
        InputError: the name cannot be one, or the model's input or output cannot be generated.
    """
    program = build_program(plan, name=name)
    notes = {key: value for key, value in plan.graph.notes.items() if value}
    notes |= {key: text for key, text in (("task", task), ("scheme", scheme)) if text}
    version = _version()
    abi = {"kernels": _abi("tt_kernels", "tt_types.h", "TT_KERNELS_ABI"),
           "runtime": _abi("tt_runtime", "tt_program.h", "TT_RUNTIME_ABI")}  # fmt: skip
    common = {
        "program": program,
        "version": version,
        "notes": sorted(notes.items()),
        "kernels_abi": abi["kernels"],
        "runtime_abi": abi["runtime"],
        "boards": tuple(boards),
        "scheme": scheme,
        "payload_bytes": link_payload_bytes(program),
    }
    files = _model_library(program, common)
    for library, description in _LIBRARIES.items():
        files |= _copy(f"lib/{library}", f"lib/{library}")
        files |= _library_files(f"lib/{library}", library, description, common)
    for name in ("app.h", "main.c", "job.c"):
        files[f"src/{name}"] = render(f"{name}.j2", **common)
    files["README.md"] = render("README.md.j2", **common)
    if boards:
        files |= _platformio_files(boards, stack_bytes, common)
    names = [board.name for board in boards]
    files[manifest.NAME] = manifest.manifest(
        program, files, version=version, abi=abi, notes=notes, boards=names
    )
    return dict(sorted(files.items()))


def _model_library(program: CProgram, common: Mapping[str, object]) -> dict[str, bytes]:
    folder, name = f"lib/{program.name}", program.name
    example = f"{name}_learns"
    return {
        f"{folder}/src/{name}.h": render("model.h.j2", **common),
        f"{folder}/src/{name}.c": render("model.c.j2", **common),
        f"{folder}/src/{name}_weights.h": render("weights.h.j2", **common),
        f"{folder}/src/{name}_weights.c": render("weights.c.j2", **common),
        f"{folder}/examples/{example}/{example}.ino": render("example.ino.j2", **common),
        **_library_files(folder, name, f"The model {name} that learns on the device", common),
    }


def _library_files(
    folder: str, name: str, description: str, common: Mapping[str, object]
) -> dict[str, bytes]:
    """What PlatformIO and Arduino want to know of a library."""
    needs = {"tt_kernels": [], "tt_runtime": ["tt_kernels"]}.get(name, ["tt_kernels", "tt_runtime"])
    header = {"tt_kernels": "tt_kernels.h"}.get(name, f"{name}.h")
    about = {"name": name, "description": description, "needs": needs, "header": header}
    return {
        f"{folder}/library.json": render("library.json.j2", library=about, **common),
        f"{folder}/library.properties": render("library.properties.j2", library=about, **common),
    }


def _platformio_files(
    boards: Sequence[Board], stack_bytes: int, common: Mapping[str, object]
) -> dict[str, bytes]:
    program = common["program"]
    assert isinstance(program, CProgram)
    files = {
        "platformio.ini": render(
            "platformio.ini.j2", project_name=program.name, boards=boards, port=EMULATOR_PORT
        ),
        ".gitignore": b".pio/\n",
    }
    local = [board for board in boards if board.platformio.is_local]
    for board in local:
        files[f"boards/{board.name}.json"] = platformio_manifest(board).encode("utf-8")
        files[f"boards/{board.name}.ld"] = render(
            "link.ld.j2", board=board, stack_bytes=stack_bytes
        )
    if local:
        files |= _copy("platform", "platform/tinytrain-cortexm")
        files |= _copy("ports/qemu", "lib/tt_port_qemu")
        files |= _copy("ports/board_qemu", "lib/tt_board_qemu")
    if any(board.platformio.framework == "arduino" for board in boards):
        files |= _copy("ports/board_arduino", "lib/tt_board_arduino")
    return files


def link_payload_bytes(program: CProgram) -> int:
    """Longest payload of the application's link: a sample or an output, in whole where possible.

    Bounded, because it is RAM; longer inputs travel in pieces. A target must fit in whole.
    """
    target = program.output.count if program.target == "values" else 4
    sample = 8 + target + program.input_bytes
    output = 12 + program.output.count * (4 if program.output.kind == "scores" else 1)
    wanted = min(max(sample, output), LINK_PAYLOAD_MAX)
    return -(-max(wanted, 8 + target, LINK_PAYLOAD_MIN) // 4) * 4


def _copy(source: str, target: str) -> dict[str, bytes]:
    """The files under ``firmware/<source>``, as they are."""
    root = data_dir("firmware") / source
    files: dict[str, bytes] = {}
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root)
        hidden = any(part.startswith((".", "__pycache__")) for part in inner.parts)
        if path.is_file() and not hidden and path.suffix != ".pyc":
            files[str(PurePosixPath(target, inner))] = path.read_bytes()
    return files


def _version() -> str:
    try:
        return importlib.metadata.version("tinytrain")
    except importlib.metadata.PackageNotFoundError:
        return "0.0.0"  # not installed: run from the source tree


def _abi(library: str, header: str, macro: str) -> int:
    text = (data_dir("firmware") / "lib" / library / "src" / header).read_text("utf-8")
    match = re.search(rf"^#define {macro} (\d+)$", text, re.MULTILINE)
    if match is None:
        raise InternalError("no-abi", "codegen", f"{header} does not define {macro}")
    return int(match[1])


def write_project(files: Mapping[str, bytes], directory: Path) -> None:
    """Write a project: to a temporary folder beside `directory`, which then takes its place.

    A folder that holds an earlier project is replaced as a whole, but only as it was generated:
    where a file was changed or added (builds in ``.pio`` aside), all stays as it is.

    Raises:
        InputError: `directory` exists and is not an untouched project of ours, is the working
            folder, or cannot be written.
    """
    directory = directory.resolve()
    _check_target(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".tinytrain-") as staging:
            fresh = Path(staging) / "project"
            for name, data in files.items():
                path = fresh / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            _replace(fresh, directory, Path(staging) / "outdated")
    except OSError as error:
        raise InputError(
            "cannot-write",
            "codegen",
            f"cannot write the project: {error}",
            where=str(directory),
            hint="choose another folder",
        ) from error


def _replace(fresh: Path, directory: Path, outdated: Path) -> None:
    if directory.exists():
        # What builds left there is worth keeping: it makes the next build short.
        builds = directory / ".pio"
        if builds.is_dir() and not builds.is_symlink():
            shutil.move(str(builds), str(fresh / ".pio"))
        os.replace(directory, outdated)
    try:
        os.replace(fresh, directory)
    except BaseException:
        if outdated.exists():
            os.replace(outdated, directory)
        raise


def _check_target(directory: Path) -> None:
    if not directory.exists() and not directory.is_symlink():
        return
    is_empty = directory.is_dir() and not any(directory.iterdir())
    if Path.cwd().resolve().is_relative_to(directory):
        raise InputError(
            "working-folder",
            "codegen",
            "the project would replace the folder that this command runs in",
            where=str(directory),
            hint="run it from outside of the project",
        )
    if is_empty:
        return
    if directory.is_dir() and (directory / manifest.NAME).is_file():
        _check_untouched(directory)
        return
    raise InputError(
        "not-a-project",
        "codegen",
        "the folder exists and was not generated by tinytrain, so it stays as it is",
        where=str(directory),
        hint="choose a new folder, or remove this one yourself",
    )


def _check_untouched(directory: Path) -> None:
    """Refuse to replace a project in which something was changed or added."""
    try:
        document = json.loads((directory / manifest.NAME).read_bytes())
        known = dict(document["files"])
    except (ValueError, KeyError, TypeError, RecursionError):
        known = {}
    touched = []
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if name.split("/")[0] == ".pio" or name == manifest.NAME:
            continue
        if path.is_symlink() or path.is_file():
            same = not path.is_symlink() and hashlib.sha256(path.read_bytes()).hexdigest()
            if same != known.get(name):
                touched.append(name)
        elif path.is_dir() and not any(path.iterdir()):
            touched.append(f"{name}/")
    if touched:
        more = f" and {len(touched) - 3} more" if len(touched) > 3 else ""
        raise InputError(
            "project-changed",
            "codegen",
            f"the project holds changes that would be lost: {', '.join(touched[:3])}{more}",
            where=str(directory),
            hint="choose a new folder, or move these files away",
        )
