"""A generated project as the toolchain sees it: its C files, and what its manifest says.

In: a project folder, or its files in memory. Out: `Generated`. Must not know graphs or plans.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tinytrain.errors import InputError
from tinytrain.toolchain.cache import cache_dir

MANIFEST = "manifest.json"
FORMAT = 1
_SHARED = ("tt_kernels", "tt_runtime")

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
        """The libraries as files, for the time of a build: (C sources, include folders).

        Args:
            application: whether src/job.c is to be among the sources.
        """
        with TemporaryDirectory(prefix="tinytrain-") as folder:
            includes = [self._keep(library) for library in _SHARED]
            includes.append(Path(folder) / self.name)
            _write(includes[-1], self._library(self.name))
            sources = [path for include in includes for path in sorted(include.rglob("*.c"))]
            if application:
                sources.append(Path(folder) / "job.c")
                sources[-1].write_bytes(self.files["src/job.c"])
            yield sources, includes

    def _library(self, name: str) -> dict[str, bytes]:
        """Path in the library's source folder -> content."""
        prefix = f"lib/{name}/src/"
        found = {p[len(prefix) :]: d for p, d in self.files.items() if p.startswith(prefix)}
        return dict(sorted(found.items()))

    def _keep(self, name: str) -> Path:
        """The sources of a library that all models share, in the cache.

        Sanitizers name the file, so objects built for them can be used again only from one place.
        """
        content = self._library(name)
        digest = hashlib.sha256()
        for path, data in content.items():
            digest.update(f"{path} {len(data)} ".encode() + data)
        target = cache_dir() / "sources" / f"{name}-{digest.hexdigest()[:16]}"
        if not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=target.parent, prefix=".tmp") as staging:
                _write(Path(staging) / "fresh", content)
                try:
                    (Path(staging) / "fresh").rename(target)
                except OSError:
                    if not target.is_dir():  # unless another process was faster
                        raise
        return target


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


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
    wanted = [folder / MANIFEST, folder / "src" / "job.c", *folder.glob("lib/*/src/**/*.[ch]")]
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
