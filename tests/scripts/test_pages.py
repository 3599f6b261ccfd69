"""Pages with figures say what the kept measurements say."""

from __future__ import annotations

import pytest

from scripts import accuracy_page, kernels_page


def test_the_tables_of_kernels_are_current(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kernels_page.py", "--check"])
    assert kernels_page.main() == 0, capsys.readouterr().out


def test_the_page_of_accuracies_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    accuracy_page.main()
    page = (accuracy_page.ROOT / "docs" / "accuracy.md").read_text("utf-8")
    assert capsys.readouterr().out == page, "python scripts/accuracy_page.py > docs/accuracy.md"
