"""The manifest of a generated project: what the toolchain must know of the C without reading it.

In: the program and the other files. Out: a JSON document. Must not know the disk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from codegen.program import CProgram

FORMAT = 1
NAME = "manifest.json"


def manifest(
    program: CProgram,
    files: Mapping[str, bytes],
    *,
    version: str,
    abi: Mapping[str, int],
    notes: Mapping[str, str],
    boards: Sequence[str],
) -> bytes:
    """The manifest as JSON text; keys sorted, one tensor or operator a line.

    Args:
        files: path -> content of all other files.
        abi: versions of the structs between generated code, runtime and kernels.
        notes: where the model comes from.
    """
    document = {
        "format": FORMAT,
        "generator": f"tinytrain {version}",
        "abi": dict(abi),
        "boards": list(boards),
        "notes": dict(notes),
        "program": _program(program),
        "tensors": [asdict(tensor) for tensor in program.tensors],
        "ops": [asdict(op) for op in program.ops],
        "files": {path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items())},
    }
    lines = [f"  {json.dumps(key)}: {_value(value)}" for key, value in sorted(document.items())]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def _program(program: CProgram) -> dict[str, object]:
    return {
        "name": program.name,
        "fingerprint": program.fingerprint,
        "target": program.target,
        "classes": program.classes,
        "state_bytes": program.state_bytes,
        "buffer_bytes": program.buffer_bytes,
        "arena_bytes": program.arena_bytes,
        "memory_bytes": program.memory_bytes,
        "trainable": program.has_backward,
        "batches": program.has_apply,
        "input": {
            "bytes": program.input_bytes,
            "offset": program.input_offset,
            "shape": program.input_shape,
            "scale": program.input_scale,
            "zero_point": program.input_zero_point,
        },
        "output": asdict(program.output),
    }


def _value(value: object) -> str:
    """JSON of a top-level value: containers one item a line."""
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join("    " + json.dumps(v, sort_keys=True) for v in value) + "\n  ]"
    if isinstance(value, dict) and value:
        items = (f"    {json.dumps(k)}: {json.dumps(v, sort_keys=True)}"
                 for k, v in sorted(value.items()))  # fmt: skip
        return "{\n" + ",\n".join(items) + "\n  }"
    return json.dumps(value)
