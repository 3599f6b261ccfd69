"""A generated project as the toolchain sees it: its C files, and what its manifest says.

In: a project folder, or its files in memory. Out: `Generated`. Must not know graphs or plans.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tinytrain.errors import InputError

MANIFEST = "manifest.json"
FORMAT = 1

Source = Path | Mapping[str, bytes]


@dataclass(frozen=True)
class TensorPlace:
    """A tensor in the model's memory; `offset` counts from the start of all memory."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str
    offset: int


@dataclass(frozen=True)
class OpPlace:
    """An operator: what it writes, and its scratch as (offset, bytes) in all memory."""

    name: str
    kind: str
    phase: str
    outputs: tuple[str, ...]
    scratch: tuple[int, int] | None


@dataclass(frozen=True)
class Generated:
    """Facts about a generated model.

    Attributes:
        target: "none", "class" or "values".
        output_dtype: "float32" for scores, "int8" for values.
        input_offset: of the input in all memory.
        tensors: by name.
        ops: in the order of the schedule.
    """

    files: Mapping[str, bytes]
    name: str
    fingerprint: int
    target: str
    classes: int
    batches: bool
    input_shape: tuple[int, ...]
    input_bytes: int
    input_offset: int
    output_dtype: str
    output_count: int
    state_bytes: int
    memory_bytes: int
    tensors: Mapping[str, TensorPlace]
    ops: tuple[OpPlace, ...]

    @property
    def target_bytes(self) -> int:
        """Bytes of a target of the kind "values", else 0."""
        return self.output_count if self.target == "values" else 0

    @property
    def output_bytes(self) -> int:
        """Bytes of one output."""
        return self.output_count * (4 if self.output_dtype == "float32" else 1)

    @contextmanager
    def on_disk(self, *, application: bool = False) -> Iterator[tuple[list[Path], list[Path]]]:
        """The libraries in a temporary folder: (C sources, include folders).

        Args:
            application: whether src/main.c is to be among the sources.
        """
        with TemporaryDirectory(prefix="tinytrain-") as folder:
            sources: list[Path] = []
            includes: list[Path] = []
            for library in ("tt_kernels", "tt_runtime", self.name):
                prefix = f"lib/{library}/src/"
                include = Path(folder) / library
                include.mkdir()
                includes.append(include)
                for path in sorted(p for p in self.files if p.startswith(prefix)):
                    target = include / path[len(prefix) :]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(self.files[path])
                    if target.suffix == ".c":
                        sources.append(target)
            if application:
                sources.append(Path(folder) / "main.c")
                sources[-1].write_bytes(self.files["src/main.c"])
            yield sources, includes


def load_generated(source: Source) -> Generated:
    """Read a project.

    Args:
        source: its folder, or path -> content as `codegen.generate` returns it.

    Raises:
        InputError: it is not a generated project, or one of another version.
    """
    files = _read_folder(source) if isinstance(source, Path) else dict(source)
    where = str(source) if isinstance(source, Path) else ""
    try:
        document = json.loads(files[MANIFEST])
        if document["format"] != FORMAT:
            raise _refused(where, f"its manifest has format {document['format']}, not {FORMAT}")
        return _facts(document, files)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"its {MANIFEST} is missing or damaged: {error!r}"
        raise _refused(where, message) from error


def _refused(where: str, message: str) -> InputError:
    return InputError(
        "not-a-project",
        "toolchain",
        f"this is not a generated project: {message}",
        where=where,
        hint="generate it again with `tinytrain compile`",
    )


def _read_folder(folder: Path) -> dict[str, bytes]:
    """The files that the host build needs."""
    wanted = [folder / MANIFEST, folder / "src" / "main.c", *folder.glob("lib/*/src/**/*.[ch]")]
    try:
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in wanted if p.is_file()}
    except OSError as error:
        raise _refused(str(folder), str(error)) from error


def _facts(document: dict[str, Any], files: Mapping[str, bytes]) -> Generated:
    program = document["program"]
    start = {
        "state": 0,
        "buffers": program["state_bytes"],
        "arena": program["state_bytes"] + program["buffer_bytes"],
    }
    tensors = {
        t["name"]: TensorPlace(
            t["name"], t["dtype"], tuple(t["shape"]), t["role"], start[t["memory"]] + t["offset"]
        )
        for t in document["tensors"]
    }
    ops = tuple(_op(op, start["arena"]) for op in document["ops"])
    return Generated(
        files=files,
        name=program["name"],
        fingerprint=program["fingerprint"],
        target=program["target"],
        classes=program["classes"],
        batches=program["batches"],
        input_shape=tuple(program["input"]["shape"]),
        input_bytes=program["input"]["bytes"],
        input_offset=start["arena"] + program["input"]["offset"],
        output_dtype={"scores": "float32", "values": "int8"}[program["output"]["kind"]],
        output_count=program["output"]["count"],
        state_bytes=program["state_bytes"],
        memory_bytes=program["memory_bytes"],
        tensors=tensors,
        ops=ops,
    )


def _op(op: dict[str, Any], arena: int) -> OpPlace:
    scratch = op["scratch"]
    place = None if scratch is None else (arena + scratch[0], scratch[1])
    return OpPlace(op["name"], op["kind"], op["phase"], tuple(op["outputs"]), place)
