"""A line that drops, damages, doubles and cuts frames, between a client and a device."""

from __future__ import annotations

import random

from tinytrain.toolchain.link_exchange import Transport


class NoisyLine:
    """A transport around another one; equal seeds make equal noise, both ways.

    Args:
        drop, corrupt, double, cut: probabilities, for each frame.
    """

    def __init__(
        self, inner: Transport, seed: int, *, drop: float = 0.0, corrupt: float = 0.0,
        double: float = 0.0, cut: float = 0.0,
    ) -> None:  # fmt: skip
        self.name = f"noisy {inner.name}"
        self._inner, self._random = inner, random.Random(seed)
        self._odds = (drop, corrupt, double, cut)
        self.quiet = False
        self.harmed = 0
        self.frames = 0

    def send(self, data: bytes) -> None:
        self._inner.send(self._harm(data))

    def receive(self, timeout_s: float) -> bytes:
        return self._harm(self._inner.receive(timeout_s))

    def close(self) -> None:
        self._inner.close()

    def _harm(self, data: bytes) -> bytes:
        if self.quiet:
            return data
        parts = data.split(b"\0")
        return b"\0".join(self._harm_frame(part) if part else part for part in parts)

    def _harm_frame(self, frame: bytes) -> bytes:
        drop, corrupt, double, cut = self._odds
        self.frames += 1
        draw = self._random.random()
        at = self._random.randrange(len(frame))
        if draw < drop + corrupt + double + cut:
            self.harmed += 1
        if draw < drop:
            return b""
        if draw < drop + corrupt:
            flipped = frame[at] ^ (1 << self._random.randrange(8))
            return frame[:at] + bytes([flipped]) + frame[at + 1 :]
        if draw < drop + corrupt + double:
            return frame + b"\0" + frame
        if draw < drop + corrupt + double + cut:
            return frame[:at]
        return frame
