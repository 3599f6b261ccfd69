"""Job files: work for a generated application, and what it wrote about it.

In: samples. Out: the bytes that src/job.c of a generated project reads (its comment has the
format), and its results as values. Must not know where the application runs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tinytrain.errors import InputError, ToolError
from tinytrain.toolchain.generated import Generated

Array = npt.NDArray[Any]
Kind = Literal["infer", "train", "calibrate"]

_KINDS: dict[str, int] = {"infer": 0, "train": 1, "calibrate": 2}
_VERSION = 1
_JOB = struct.Struct("<4s7I")
_ITEM = struct.Struct("<Ifi")
_RESULT = struct.Struct("<4s3I")
_RECORD = struct.Struct("<ifiIQ")
_END = struct.Struct("<2I")
_TRACE_READINGS = 64  # as src/main.c has it


@dataclass(frozen=True, eq=False)
class JobItem:
    """One call.

    Attributes:
        input: int8, one sample in the model's input shape.
        target: class index, or int8 values, for the kinds that learn.
        rate: learning rate, for the kinds that learn.
    """

    kind: Kind
    input: Array
    target: Array | int = 0
    rate: float = 0.0


@dataclass(frozen=True)
class Job:
    """Calls in turn; `batch` 0 leaves the program's batch as it is."""

    items: tuple[JobItem, ...]
    seed: int = 0
    step_index: int = 0
    batch: int = 0


@dataclass(frozen=True, eq=False)
class ItemResult:
    """What a call gave.

    Attributes:
        status: 0, or a negative error of the runtime.
        loss: of the kinds that learn.
        best: index of the largest output.
        applied: whether trained values moved.
        instructions: that the call took; 0 where they are not counted.
        output: of the kind "infer"; None for the others and after an error.
    """

    kind: Kind
    status: int
    loss: float
    best: int
    applied: bool
    instructions: int
    output: Array | None


@dataclass(frozen=True)
class JobResult:
    """Results in the order of the items, stack used by the application, and the final state.

    Attributes:
        op_instructions: of each operator in the last item, the counter's own subtracted; empty
            unless the application was built with TT_TRACE.
    """

    items: tuple[ItemResult, ...]
    stack_bytes: int
    state: bytes
    op_instructions: tuple[int, ...] = ()


def training_job(
    x: Array, targets: Array, rates: Array | float, *, order: Array | None = None,
    seed: int = 0, batch: int = 0, infer: Array | None = None,
) -> Job:  # fmt: skip
    """A job of one training step a sample, then of inference.

    Args:
        x, targets, rates, order: as in `Simulator.train`.
        infer: int8 [M, ...], run after the training.
    """
    turns = np.arange(len(x)) if order is None else np.asarray(order)
    steps = np.broadcast_to(np.asarray(rates, np.float32), turns.shape)
    items = [
        JobItem("train", x[i], targets[i], float(rate))
        for i, rate in zip(turns.tolist(), steps, strict=True)
    ]
    items += [JobItem("infer", sample) for sample in (() if infer is None else infer)]
    return Job(tuple(items), seed=seed, batch=batch)


def encode_job(project: Generated, job: Job) -> bytes:
    """The job file.

    Raises:
        InputError: an input or a target does not fit the program.
    """
    parts = [
        _JOB.pack(
            b"TTJB", _VERSION, project.fingerprint, job.seed & 0xFFFFFFFF,
            job.step_index & 0xFFFFFFFF, job.batch, len(job.items), 0,
        )
    ]  # fmt: skip
    for index, item in enumerate(job.items):
        learns = item.kind != "infer"
        is_class = learns and project.target == "class"
        label = int(np.asarray(item.target).reshape(-1)[0]) if is_class else 0
        parts.append(_ITEM.pack(_KINDS[item.kind], item.rate, label))
        if project.target == "values":
            target = item.target if learns else np.zeros(project.target_bytes, np.int8)
            parts.append(_int8(target, project.target_bytes, f"target of item {index}"))
        parts.append(_int8(item.input, project.input_bytes, f"input of item {index}"))
    return b"".join(parts)


def decode_result(project: Generated, job: Job, data: bytes) -> JobResult:
    """What the application wrote about a job.

    Raises:
        ToolError: the file is damaged, or about another job.
    """
    try:
        magic, version, fingerprint, count = _RESULT.unpack_from(data)
        expected = (b"TTRS", _VERSION, project.fingerprint, len(job.items))
        if (magic, version, fingerprint, count) != expected:
            raise _damaged("it belongs to another job or program")
        at, items = _RESULT.size, []
        for item in job.items:
            result, at = _decode_item(project, item.kind, data, at)
            items.append(result)
        stack_bytes, state_bytes = _END.unpack_from(data, at)
        at += _END.size
        state, profile = data[at : at + state_bytes], data[at + state_bytes :]
        if len(state) != state_bytes or state_bytes != project.state_bytes:
            raise _damaged(f"it ends with {len(state)} bytes of state")
        return JobResult(tuple(items), stack_bytes, state, _decode_profile(project, profile))
    except (struct.error, ValueError) as error:
        raise _damaged(str(error)) from error


def _decode_profile(project: Generated, data: bytes) -> tuple[int, ...]:
    if not data:
        return ()
    readings, *counts = struct.unpack(f"<{1 + len(project.ops)}Q", data)
    reading = round(readings / _TRACE_READINGS)
    return tuple(max(0, count - reading) for count in counts)


def _decode_item(project: Generated, kind: Kind, data: bytes, at: int) -> tuple[ItemResult, int]:
    status, loss, best, applied, instructions = _RECORD.unpack_from(data, at)
    at += _RECORD.size
    output: Array | None = None
    if kind == "infer" and status == 0:
        raw = data[at : at + project.output_bytes]
        output = np.frombuffer(raw, np.dtype(project.output_dtype).newbyteorder("<")).copy()
        at += project.output_bytes
    return ItemResult(kind, status, loss, best, bool(applied), instructions, output), at


def _int8(values: Array | int, count: int, what: str) -> bytes:
    array = np.asarray(values)
    if array.dtype != np.int8 or array.size != count:
        found = f"{array.dtype}{list(array.shape)}"
        raise InputError(
            "bad-data", "job", f"the {what} is {found}; the program takes {count} int8 values"
        )
    return array.tobytes()


def _damaged(message: str) -> ToolError:
    return ToolError("bad-result", "job", f"the application's result cannot be read: {message}")


def losses(items: Sequence[ItemResult]) -> npt.NDArray[np.float32]:
    """Losses of the items that learn, float32."""
    return np.array([item.loss for item in items if item.kind != "infer"], np.float32)


def outputs(project: Generated, items: Sequence[ItemResult]) -> Array:
    """Outputs of the items that infer, [M, values]."""
    found = [item.output for item in items if item.output is not None]
    if not found:
        return np.zeros((0, project.output_count), project.output_dtype)
    return np.stack(found).astype(project.output_dtype)
