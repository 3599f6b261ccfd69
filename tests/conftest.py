"""What a test needs is a mark; where it is missing the test is skipped, in CI it fails."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent


def _zoo() -> Path:
    chosen = os.environ.get("TINYTRAIN_ZOO")
    return Path(chosen) if chosen else _ROOT.parent / "shared" / "zoo"


def _missing_zoo() -> str:
    found = (_zoo() / "manifest.json").is_file()
    return "" if found else f"no model zoo in {_zoo()} (set TINYTRAIN_ZOO)"


def _missing_arm() -> str:
    if shutil.which("arm-none-eabi-gcc") is None:
        return "no arm-none-eabi-gcc (apt install gcc-arm-none-eabi libnewlib-arm-none-eabi)"
    found = importlib.util.find_spec("platformio") is not None
    return "" if found else "no PlatformIO (pip install platformio)"


def _missing_qemu() -> str:
    found = shutil.which("qemu-system-arm") is not None
    return "" if found else "no qemu-system-arm (apt install qemu-system-arm)"


_NEEDS: dict[str, tuple[str, Callable[[], str]]] = {
    "zoo": ("needs the zoo of pre-trained models", _missing_zoo),
    "arm": ("needs the ARM compiler and PlatformIO", _missing_arm),
    "qemu": ("needs QEMU for ARM", _missing_qemu),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write expected files anew instead of comparing",
    )


def pytest_configure(config: pytest.Config) -> None:
    for name, (meaning, _) in _NEEDS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name, (_, missing) in _NEEDS.items():
        reason = missing() if item.get_closest_marker(name) else ""
        if reason and os.environ.get("CI") == "true":
            pytest.fail(f"nothing may be skipped in CI: {reason}", pytrace=False)
        if reason:
            pytest.skip(reason)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a file of the repository; ``--update-golden`` writes the file."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{path}: see `make golden`"

    return compare


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The folder of the model zoo; a test that asks for it is marked `zoo`."""
    return _zoo()
