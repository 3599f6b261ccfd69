"""Throughput over a slow and distant line: the line's own speed, not the way there and back.

Time is played, not measured: a line of so many bytes a second and so long a way delivers what the
device in this process answers at once.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
import pytest

from codegen import generate
from tests.codegen.models import CLASSES, tiny_plan
from tinytrain.toolchain import link_exchange
from tinytrain.toolchain.link import Link
from tinytrain.toolchain.link_simulator import SimulatedDevice

BYTES_A_SECOND = 11_520.0  # 115,200 baud
DELAY_S = 0.020  # one way, as USB adapters have it


class DistantLine:
    """A transport whose bytes take their time; `now` is the time that has passed."""

    name = "distant line"

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self._answers: deque[tuple[float, bytes]] = deque()
        self._up_free = self._down_free = 0.0
        self.now, self.sent, self.received = 0.0, 0, 0

    def send(self, data: bytes) -> None:
        self.sent += len(data)
        self._up_free = max(self.now, self._up_free) + len(data) / BYTES_A_SECOND
        self._device.send(data)
        answer = self._device.receive(0.0)
        begin = max(self._up_free + DELAY_S, self._down_free)
        self._down_free = begin + len(answer) / BYTES_A_SECOND
        self._answers.append((self._down_free + DELAY_S, answer))

    def receive(self, timeout_s: float) -> bytes:
        if not self._answers:
            self.now += timeout_s
            return b""
        arrival, answer = self._answers.popleft()
        self.now = max(self.now, arrival)
        self.received += len(answer)
        return answer

    def close(self) -> None:
        self._device.close()


def seconds(folder: Path, samples: int) -> tuple[float, float]:
    """(time that training took, time that its bytes alone take on the line)."""
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (samples, 6, 6, 3)).astype(np.int8)
    y = rng.integers(0, CLASSES, samples)
    line = DistantLine(SimulatedDevice(generate(tiny_plan(folder))))
    with Link(line) as link:
        begin, sent = line.now, line.sent
        assert len(link.train(x, y, 0.01)) == samples and link.sent_again == 0
        return line.now - begin, (line.sent - sent) / BYTES_A_SECOND


def test_the_line_is_the_bound(tmp_path: Path) -> None:
    taken, line = seconds(tmp_path, 200)
    assert line < taken < 1.05 * line


def test_one_request_at_a_time_would_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_exchange, "WINDOW", 1)
    taken, line = seconds(tmp_path, 50)
    assert taken > 3 * line
