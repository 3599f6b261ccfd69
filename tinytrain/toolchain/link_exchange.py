"""Requests and answers over a line that may lose, cut, double or damage frames.

In: requests in order. Out: their answers in order; each request is done exactly once by the
device, which works in the order of sequence numbers and knows what it has done. Several requests
are on their way at a time, so throughput does not depend on round trips. Must not know what
payloads mean.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from tinytrain.errors import ToolError
from tinytrain.toolchain.link_frames import (
    ANSWER,
    REFUSAL,
    VERSION,
    WINDOW,
    Decoder,
    Frame,
    Kind,
    Reason,
    encode,
)

Request = tuple[Kind, bytes]

_STAGE = "link"
_HELLO_S = 0.5
_SESSIONS = 3
_NOISE_BYTES = 1 << 16  # without a frame among them: no better than silence


class Transport(Protocol):
    """A line to a device."""

    name: str

    def send(self, data: bytes) -> None:
        """Send bytes."""

    def receive(self, timeout_s: float) -> bytes:
        """Bytes that have arrived, at least one; b"" if none came in time."""

    def close(self) -> None:
        """Let go of the line."""


class ForgottenError(Exception):
    """The device has done a request and cannot give its answer again; it was a pure one."""


@dataclass
class _Pending:
    frame: Frame
    wire: bytes
    answer: bytes | None = None
    asked_again: bool = False


class Exchange:
    """One session with a device.

    Args:
        timeout_s: after so long without a sign what is unanswered is sent again.
        attempts: so often in a row, before the device counts as silent.

    Raises:
        ToolError: the device does not answer, or speaks another version.
    """

    def __init__(self, transport: Transport, *, timeout_s: float = 2.0, attempts: int = 15) -> None:
        self._transport, self._timeout_s, self._attempts = transport, timeout_s, attempts
        self._decoder = Decoder()
        self._next = 1
        self.receive_bytes = 1
        self.sent_again = 0
        self.greeting = b""
        for _ in range(_SESSIONS):
            self._session = 1 + secrets.randbelow(0xFFFF)
            self.greeting, is_new = self._greet()
            if is_new:
                return
        raise self._silent("it does not begin a session")

    def ask(self, kind: Kind, payload: bytes = b"") -> bytes:
        """The answer to one request."""
        return next(self.stream([(kind, payload)]))

    def stream(self, requests: Iterable[Request]) -> Iterator[bytes]:
        """Answers in the order of the requests, which are fetched as the line has room for them.

        Raises:
            ToolError: the device fell silent, or has restarted.
            ForgottenError: see there.
        """
        source = iter(requests)
        upcoming = next(source, None)
        pending: deque[_Pending] = deque()
        silences = noise = 0
        while upcoming is not None or pending:
            while upcoming is not None and self._has_room(pending, upcoming):
                self._submit(pending, upcoming)
                upcoming = next(source, None)
            data = self._transport.receive(self._timeout_s)
            frames = self._decoder.feed(data)
            noise = 0 if frames else noise + len(data)
            if data and not frames and noise < _NOISE_BYTES:
                continue  # a piece of a frame, often a single byte
            before = sum(item.answer is None for item in pending)
            for frame in frames:
                self._take(pending, frame)
            if not frames:
                silences, noise = silences + 1, 0
                if silences > self._attempts:
                    raise self._silent("it does not answer any more")
                self._send_again(pending)
            elif before > sum(item.answer is None for item in pending):
                silences = 0
            while pending and (answer := pending[0].answer) is not None:
                pending.popleft()
                yield answer

    def close(self) -> None:
        """Let go of the line."""
        self._transport.close()

    # ---- inside ----

    def _greet(self) -> tuple[bytes, bool]:
        hello = encode(Frame(Kind.HELLO, self._session, 0, b""))
        for _ in range(self._attempts):
            self._transport.send(hello)
            while data := self._transport.receive(min(_HELLO_S, self._timeout_s)):
                for frame in self._decoder.feed(data):
                    if frame.session != self._session:
                        continue
                    if frame.kind == REFUSAL:
                        self._check_refusal(frame)
                    if frame.kind == Kind.HELLO + ANSWER:
                        expected = int.from_bytes(frame.payload[72:76], "little")
                        return frame.payload, expected == 1
        raise self._silent("nobody answers")

    def _has_room(self, pending: deque[_Pending], request: Request) -> bool:
        """A request may always go alone; more only as far as the device can keep them."""
        if not pending:
            return True
        waiting = sum(len(item.wire) for item in pending if item.answer is None)
        size = len(request[1]) * 255 // 254 + 16
        return len(pending) < WINDOW and waiting + size <= self.receive_bytes

    def _submit(self, pending: deque[_Pending], request: Request) -> None:
        frame = Frame(request[0], self._session, self._next, request[1])
        self._next += 1
        pending.append(_Pending(frame, encode(frame)))
        self._transport.send(pending[-1].wire)

    def _send_again(self, pending: Iterable[_Pending]) -> None:
        for item in pending:
            if item.answer is None:
                self.sent_again += 1
                self._transport.send(item.wire)

    def _take(self, pending: deque[_Pending], frame: Frame) -> None:
        if not pending or frame.session != self._session:
            return
        position = frame.sequence - pending[0].frame.sequence
        if frame.kind == REFUSAL:
            self._check_refusal(frame)
            if frame.payload[0] == Reason.FORGOTTEN:
                if 0 <= position < len(pending) and pending[position].answer is None:
                    raise ForgottenError
                return
            self._send_again(pending)
            return
        if not 0 <= position < len(pending):
            return
        item = pending[position]
        if item.answer is None and frame.kind == item.frame.kind + ANSWER:
            item.answer = frame.payload
        # Answers come in order: one that is missing before this one was lost on its way.
        for earlier in list(pending)[:position]:
            if earlier.answer is None and not earlier.asked_again:
                earlier.asked_again = True
                self._send_again([earlier])

    def _check_refusal(self, frame: Frame) -> None:
        reason = frame.payload[0] if frame.payload else 0
        if reason == Reason.SESSION:
            raise ToolError(
                "device-restarted",
                _STAGE,
                "the device knows nothing of this session: it has restarted, or another program "
                "talks to it",
                where=self._transport.name,
                hint="connect again; the device goes on from its last saved state",
            )
        if reason == Reason.PROTOCOL:
            raise ToolError(
                "other-protocol",
                _STAGE,
                f"the device does not speak version {VERSION} of the link",
                where=self._transport.name,
                hint="generate and flash its firmware again",
            )

    def _silent(self, message: str) -> ToolError:
        return ToolError(
            "device-silent",
            _STAGE,
            f"the device is silent: {message}",
            where=self._transport.name,
            hint="check the port, and that the device runs the example application of this version",
        )
