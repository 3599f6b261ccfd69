"""The page of a plan: valid, complete, of its own, the same each time."""

from __future__ import annotations

from html.parser import HTMLParser

from tests.memory.test_report import small
from tinytrain.memory import memory_map, plan
from tinytrain.memory.html_page import Bar, Saving, render_html

BARS = (
    Bar("SRAM", (("arena", 600), ("stack", 200)), 1000),
    Bar("Flash", (("constants", 3000),), 2000),
)
SAVINGS = (Saving("weights of layer 1 (<b>)", 1200, -16, 1216), Saving("bias", 4, 0, 4))
VOID = {"meta"}


class Page(HTMLParser):
    """Elements, texts and attributes; refuses tags that do not close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.styles: list[str] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.styles += [value or "" for name, value in attrs if name == "style"]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)  # of the drawing
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def page_of(prefix: str = "") -> tuple[str, Page]:
    page = render_html(memory_map(plan(small(prefix))), "digits <&> map", BARS, SAVINGS)
    return page, Page(page)


def test_the_page_is_whole_and_refers_to_nothing() -> None:
    page, parsed = page_of()
    assert page.startswith("<!DOCTYPE html>\n") and page.endswith("</html>\n")
    assert parsed.tags.count("svg") == parsed.tags.count("h1") == 1
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(parsed.tags)
    assert not {"src", "href", "xlink:href", "data"} & parsed.attributes
    assert not any(name.startswith("on") for name in parsed.attributes)
    assert "url(" not in page and "@import" not in page
    assert page.replace('xmlns="http://www.w3.org/2000/svg"', "").count("://") == 0


def test_the_same_plan_gives_the_same_page() -> None:
    assert page_of()[0] == page_of()[0]


def test_bars_show_what_is_free_and_what_is_too_much() -> None:
    _, parsed = page_of()
    assert "SRAM: 800 of 1,000 bytes, 200 bytes free" in parsed.text
    assert "Flash: 3,000 of 2,000 bytes, 1,000 bytes too many" in parsed.text
    widths = [style.split(";")[0] for style in parsed.styles if style.startswith("width")]
    assert widths == ["width:60.00%", "width:20.00%", "width:100.00%"]
    marks = [style for style in parsed.styles if style.startswith("left")]
    assert marks == ["left:100.00%", "left:66.67%"]


def test_tables_show_the_peak_the_savings_and_every_piece() -> None:
    memory = memory_map(plan(small()))
    _, parsed = page_of()
    heads = [i for i, row in enumerate(parsed.rows) if row[0] in ("kind", "without")]
    peak, savings, pieces = (
        parsed.rows[a + 1 : b] for a, b in zip(heads, [*heads[1:], len(parsed.rows)], strict=True)
    )
    assert [(row[1], row[2], row[-1]) for row in peak] == [
        ("wide", "100", "100"),
        ("kept", "60", "40"),
        ("plain_1", "20", "20"),
    ]
    assert savings == [
        ["weights of layer 1 (<b>)", "1,200", "-16", "1,216"],
        ["bias", "4", "0", "4"],
    ]
    assert [(row[1], row[2], row[3]) for row in pieces] == [
        (p.name, f"{p.nbytes:,}", f"{p.offset_bytes:,}") for p in memory.pieces
    ]
    kept = next(row for row in pieces if row[1] == "kept")
    assert kept[0] == "saved"
    assert kept[4:] == ["1 – 5", "plain_1", "plain_5"]


def test_names_are_only_text() -> None:
    page, parsed = page_of("<script>\"'&amp;\x00")
    assert "script" not in parsed.tags and "<script" not in page
    assert "<script>\"'&amp;?wide" in parsed.text
    assert "digits <&> map" in parsed.text


def test_nothing_to_give_up_is_said() -> None:
    page = Page(render_html(memory_map(plan(small())), "t", BARS, ()))
    assert "there is nothing to give up" in page.text
    assert not any(row[0] == "without" for row in page.rows)
