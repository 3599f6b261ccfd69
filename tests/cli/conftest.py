"""The command line called in this process, and a small model with data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tinytrain.cli.main import main
from tinytrain.demo.data import MODEL_PATH

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Outcome:
    """What a call left behind."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found


Call = Callable[..., Outcome]


@pytest.fixture
def call() -> Call:
    """Call `tinytrain` with arguments; nothing but an exit may come out of it."""

    def run(*arguments: str | Path) -> Outcome:
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), repr(
            result.exception
        )
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def model() -> Path:
    """The demonstration's model: int8 1x8x8x1 to ten classes."""
    return MODEL_PATH


@pytest.fixture
def arrays() -> Arrays:
    """Twelve random training samples and six test samples that fit `model`."""
    rng = np.random.default_rng(1)
    return {
        "x_train": rng.integers(-128, 128, (12, 8, 8, 1)).astype(np.int8),
        "y_train": np.arange(12) % 10,
        "x_test": rng.integers(-128, 128, (6, 8, 8, 1)).astype(np.int8),
        "y_test": np.arange(6),
    }


@pytest.fixture
def data(tmp_path: Path, arrays: Arrays) -> Path:
    """`arrays` as a file."""
    return save(tmp_path / "data.npz", arrays)


def save(path: Path, arrays: Arrays) -> Path:
    """Write arrays as an .npz file."""
    np.savez(path, **arrays)
    return path


@pytest.fixture(autouse=True)
def no_terminal_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared is plain text."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
