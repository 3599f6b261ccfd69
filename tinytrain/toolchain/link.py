"""The host's end of a link: one client for simulator, emulator and board (docs/link.md).

In: a transport, NumPy arrays. Out: what the device computed, as NumPy arrays. Must not know graphs,
nor what kind of device is at the other end.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.errors import InputError, ToolError, UsageError
from tinytrain.toolchain.link_exchange import Exchange, ForgottenError, Request, Transport
from tinytrain.toolchain.link_frames import Kind

Array = npt.NDArray[Any]
Watcher = Callable[["StepReport"], None]

_STAGE = "link"
_HELLO = struct.Struct("<iHHIIIIHHBBBBIIfifiIIIHHI")
_TARGETS = ("none", "class", "values")
_STATUS_TEXTS = {
    -1: "an argument is outside of its range",
    -4: "the target is missing or not one of the classes",
    -5: "the program can only infer",
    -6: "the program updates after each sample and has no batch",
    -7: "the storage failed, is too small or is not there",
    -8: "no whole state is saved",
    -9: "the saved state belongs to another model or scheme",
    -10: "the request is unknown or has the wrong size",
    -11: "a state is half written on the device",
}


@dataclass(frozen=True)
class Hello:
    """What a device says of itself and its model.

    Attributes:
        fingerprint: of the program; a state fits where it is equal.
        target: "none", "class" or "values".
        output_dtype: "float32" for scores, "int8" for values.
        payload_bytes: the longest payload of a frame.
        receive_bytes: what may be on its way to the device while it computes.
        ticks_hz: rate of the device's clock; 0 where it has none.
        half_state: whether an earlier write of a state was not finished.
    """

    name: str
    scheme: str
    runtime_abi: int
    kernels_abi: int
    fingerprint: int
    state_bytes: int
    memory_bytes: int
    input_bytes: int
    input_scale: float
    input_zero_point: int
    output_count: int
    output_dtype: str
    output_scale: float
    output_zero_point: int
    classes: int
    target: str
    payload_bytes: int
    receive_bytes: int
    ticks_hz: int
    step_index: int
    seed: int
    batch: int
    has_storage: bool
    trainable: bool
    batches: bool
    half_state: bool


@dataclass(frozen=True)
class StepReport:
    """One training step.

    Attributes:
        loss: of the sample, before the update.
        best: the prediction for it.
        step_index: from 0.
        applied: whether trained values moved.
        errors, saturated: tensors of errors, and those of them that were cut at their range.
    """

    loss: float
    best: int
    step_index: int
    applied: bool
    errors: int
    saturated: int


@dataclass(frozen=True)
class Evaluation:
    """Over samples: `correct` predictions (classes), and the mean of probability of the wanted
    class, or of the squared difference in steps of the output (values)."""

    samples: int
    correct: int
    mean_score: float


@dataclass(frozen=True)
class Saved:
    """A saved state: its number, its step index, and erase cycles of the storage so far."""

    sequence: int
    wear: int
    step_index: int


@dataclass(frozen=True)
class Statistics:
    """The device's counters since its start; `ticks` of the last training step."""

    step_index: int
    trained: int
    frames: int
    damaged: int
    repeated: int
    ticks: int
    ticks_hz: int
    saved_sequence: int
    saved_step_index: int
    wear: int


class Link:
    """A device, over any transport.

    Raises:
        ToolError: nobody answers, or in another version of the protocol.
    """

    def __init__(self, transport: Transport, *, timeout_s: float = 2.0, attempts: int = 15) -> None:
        self._exchange = Exchange(transport, timeout_s=timeout_s, attempts=attempts)
        self.hello = parse_hello(self._exchange.greeting)
        self._exchange.receive_bytes = self.hello.receive_bytes

    @property
    def sent_again(self) -> int:
        """Requests that were sent more than once."""
        return self._exchange.sent_again

    def close(self) -> None:
        """Let go of the device; it keeps its state."""
        self._exchange.close()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- samples ----

    def infer(self, x: Array) -> Array:
        """Run the model.

        Args:
            x: int8 [N, ...].

        Returns:
            float32 [N, classes] scores, or int8 [N, values].
        """
        inputs, hello = self._inputs(x), self.hello
        dtype = np.dtype(hello.output_dtype).newbyteorder("<")
        outputs = np.zeros((len(inputs), hello.output_count), hello.output_dtype)
        for row, answer in enumerate(self._pure(Kind.INFER, [b""] * len(inputs), inputs)):
            _check(answer, "infer")
            given = np.frombuffer(answer[12:], dtype)
            if given.size != hello.output_count:
                raise ToolError(
                    "output-too-long", _STAGE,
                    f"the device's frames take {given.size} of {hello.output_count} outputs",
                    hint="give the application's link a larger buffer",
                )  # fmt: skip
            outputs[row] = given
        return outputs

    def train(
        self, x: Array, targets: Array, rates: Array | float, *, order: Array | None = None,
        apply: bool = True, on_step: Watcher | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> npt.NDArray[np.float32]:  # fmt: skip
        """Take one step a sample, each exactly once and in order.

        Args:
            x, targets, rates, order, apply: as in `Simulator.train`.
            on_step: called with the report of each step as its answer comes in.
            stop: asked before a sample is sent; once True, what is on its way is finished.

        Returns:
            float32 [steps done], the loss of each sample before its update.
        """
        if self.hello.target == "none":
            raise UsageError("no-training", _STAGE, "this program can only infer")
        inputs, wanted = self._inputs(x), self._targets(targets, len(x))
        turns = np.arange(len(inputs)) if order is None else np.asarray(order)
        steps = np.broadcast_to(np.asarray(rates, np.float32), turns.shape)

        def requests() -> Iterator[Request]:
            for i, rate in zip(turns.tolist(), steps.tolist(), strict=True):
                if stop():
                    return
                head = struct.pack("<fI", rate, 0 if apply else 1) + wanted[i]
                yield from self._with_input(Kind.TRAIN, head, inputs[i])

        losses = []
        for answer in self._exchange.stream(requests()):
            _check(answer, "train")
            if len(answer) == 4:
                continue  # a piece of an input
            _, loss, best, index, applied, _, errors, cut = struct.unpack("<ifiI4H", answer)
            losses.append(loss)
            if on_step is not None:
                on_step(StepReport(loss, best, index, bool(applied), errors, cut))
        return np.array(losses, np.float32)

    def evaluate(self, x: Array, targets: Array) -> Evaluation:
        """Compare the model's outputs with targets on the device; nothing is learned."""
        inputs, wanted = self._inputs(x), self._targets(targets, len(x))
        heads = [bytes(8) + target for target in wanted]
        correct, total = 0, 0.0
        for answer in self._pure(Kind.EVALUATE, heads, inputs):
            _check(answer, "evaluate")
            _, _, right, score = struct.unpack("<iiIf", answer)
            correct, total = correct + right, total + score
        return Evaluation(len(inputs), correct, total / max(1, len(inputs)))

    # ---- the state ----

    def save(self) -> Saved:
        """Save the state in the device's storage.

        Raises:
            ToolError: the device has no storage, or it failed.
        """
        return self._saved(Kind.SAVE)

    def load(self) -> Saved:
        """Go back to the state that was saved last.

        Raises:
            ToolError: there is none.
        """
        return self._saved(Kind.LOAD)

    def state(self) -> bytes:
        """The trained state."""
        room, size = self.hello.payload_bytes - 4, self.hello.state_bytes
        starts = range(0, size, room)
        requests = [
            (Kind.READ_STATE, struct.pack("<II", at, min(room, size - at))) for at in starts
        ]
        return b"".join(_check(a, "read the state")[4:] for a in self._exchange.stream(requests))

    def set_state(self, state: bytes, *, step_index: int = 0, seed: int = 0) -> None:
        """Replace the trained state; until it is whole the device refuses to train or infer.

        Raises:
            InputError: it has another size.
        """
        if len(state) != self.hello.state_bytes:
            raise InputError(
                "bad-state", _STAGE,
                f"the state has {len(state)} bytes, the device's has {self.hello.state_bytes}",
                hint="it belongs to another model or scheme",
            )  # fmt: skip
        room = self.hello.payload_bytes - 4
        requests = [
            (Kind.WRITE_STATE, struct.pack("<I", at) + state[at : at + room])
            for at in range(0, len(state), room)
        ]
        commit = struct.pack("<III", zlib.crc32(state), step_index & 0xFFFFFFFF, seed & 0xFFFFFFFF)
        for answer in self._exchange.stream([*requests, (Kind.COMMIT_STATE, commit)]):
            _check(answer, "write the state")

    def reset(self) -> None:
        """Back to the initial state and step 0; seed and batch stay."""
        _check(self._exchange.ask(Kind.RESET), "reset")

    def configure(self, *, seed: int, step_index: int, batch: int = 0) -> None:
        """Set the seed, the index of the next step, and the samples of a batch (0: leave it)."""
        payload = struct.pack("<III", seed & 0xFFFFFFFF, step_index & 0xFFFFFFFF, batch)
        _check(self._exchange.ask(Kind.CONFIGURE, payload), "configure")

    def statistics(self) -> Statistics:
        """The device's counters."""
        answer = _check(self._exchange.ask(Kind.STATISTICS), "statistics")
        return Statistics(*struct.unpack("<10I", answer[4:]))

    # ---- inside ----

    def _saved(self, kind: Kind) -> Saved:
        answer = _check(self._exchange.ask(kind), kind.name.lower())
        return Saved(*struct.unpack("<III", answer[4:]))

    def _with_input(self, kind: Kind, head: bytes, x: bytes) -> Iterator[Request]:
        """A request with its input, which goes ahead in pieces where a frame is too short."""
        room = self.hello.payload_bytes
        if len(head) + len(x) <= room:
            yield kind, head + x
            return
        if len(head) > room:
            raise UsageError("target-too-long", _STAGE, "a target does not fit into a frame")
        for at in range(0, len(x), room - 4):
            yield Kind.PUT_INPUT, struct.pack("<I", at) + x[at : at + room - 4]
        yield kind, head

    def _pure(self, kind: Kind, heads: list[bytes], inputs: list[bytes]) -> Iterator[bytes]:
        """Answers about samples, asked in a way that may be repeated."""
        requests = [tuple(self._with_input(kind, h, x)) for h, x in zip(heads, inputs, strict=True)]
        if all(len(parts) == 1 for parts in requests):
            yield from self._exchange.stream(parts[0] for parts in requests)
            return
        # The input is used up by the call, so a lost answer means the whole again.
        for parts in requests:
            while True:
                try:
                    answers = list(self._exchange.stream(parts))
                except ForgottenError:
                    continue
                break
            for answer in answers[:-1]:
                _check(answer, "put the input")
            yield answers[-1]

    def _inputs(self, x: Array) -> list[bytes]:
        x, size = np.asarray(x), self.hello.input_bytes
        if x.dtype != np.int8 or x.ndim == 0 or x.size != len(x) * size:
            raise InputError(
                "bad-data", _STAGE,
                f"inputs must be int8 [N, {size} values], not {x.dtype}{list(x.shape)}",
            )  # fmt: skip
        return [sample.tobytes() for sample in x]

    def _targets(self, targets: Array, count: int) -> list[bytes]:
        targets = np.asarray(targets)
        size = self.hello.output_count if self.hello.target == "values" else 1
        kind = np.int8 if self.hello.target == "values" else np.integer
        if len(targets) != count or targets.size != count * size:
            message = f"{targets.size} values of targets for {count} samples of {size}"
            raise InputError("bad-data", _STAGE, message)
        if not np.issubdtype(targets.dtype, kind):
            message = f"targets of type {targets.dtype} for a model with targets of kind "
            raise InputError("bad-data", _STAGE, message + self.hello.target)
        if self.hello.target == "values":
            return [target.tobytes() for target in targets]
        return [struct.pack("<i", int(label)) for label in targets.reshape(-1)]


def parse_hello(answer: bytes) -> Hello:
    """Read a device's answer to a hello.

    Raises:
        ToolError: it is too short.
    """
    if len(answer) < _HELLO.size:
        raise ToolError("bad-hello", _STAGE, f"the device's greeting has {len(answer)} bytes")
    (
        _, runtime_abi, kernels_abi, fingerprint, state_bytes, memory_bytes, input_bytes,
        output_count, classes, output_kind, target_kind, _, flags, payload_bytes, receive_bytes,
        input_scale, input_zero_point, output_scale, output_zero_point, ticks_hz, step_index, seed,
        batch, _, _,
    ) = _HELLO.unpack_from(answer)  # fmt: skip
    name, scheme, *_rest = [*answer[_HELLO.size :].split(b"\0"), b"", b""]
    return Hello(
        name=name.decode("utf-8", "replace"),
        scheme=scheme.decode("utf-8", "replace"),
        runtime_abi=runtime_abi,
        kernels_abi=kernels_abi,
        fingerprint=fingerprint,
        state_bytes=state_bytes,
        memory_bytes=memory_bytes,
        input_bytes=input_bytes,
        input_scale=input_scale,
        input_zero_point=input_zero_point,
        output_count=output_count,
        output_dtype="float32" if output_kind == 1 else "int8",
        output_scale=output_scale,
        output_zero_point=output_zero_point,
        classes=classes,
        target=_TARGETS[min(target_kind, 2)],
        payload_bytes=payload_bytes,
        receive_bytes=receive_bytes,
        ticks_hz=ticks_hz,
        step_index=step_index,
        seed=seed,
        batch=batch,
        has_storage=bool(flags & 1),
        trainable=bool(flags & 2),
        batches=bool(flags & 4),
        half_state=bool(flags & 8),
    )


def _check(answer: bytes, what: str) -> bytes:
    status = struct.unpack_from("<i", answer)[0]
    if status != 0:
        text = _STATUS_TEXTS.get(status, "see tt_status.h")
        raise ToolError(
            "device-status", _STAGE, f"the device cannot {what}: {text} (status {status})"
        )
    return answer
