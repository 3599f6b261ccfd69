"""docs/boards.md is what the board files say."""

from __future__ import annotations

from scripts.boards_page import PAGE, page
from tinytrain.boards import load_boards


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(load_boards()), "run scripts/boards_page.py"


def test_every_board_has_a_row_and_a_claim() -> None:
    rows = [
        line
        for line in page(load_boards()).splitlines()
        if line.startswith("| `") and "--board" not in line
    ]
    assert len(rows) == len(load_boards())
    assert sum("emulated here" in row for row in rows) == 6
    assert sum("described only" in row for row in rows) == 10
