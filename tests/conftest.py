"""What a test needs is a mark; where it is missing the test is skipped, in CI it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.needs import NEEDS, need, zoo_folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write expected files anew instead of comparing",
    )


def pytest_configure(config: pytest.Config) -> None:
    for name, (meaning, _) in NEEDS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in NEEDS:
        mark = item.get_closest_marker(name)
        if mark is not None:
            need(name, *mark.args)


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
    return zoo_folder()
