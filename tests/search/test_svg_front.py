"""The drawing of a search."""

from __future__ import annotations

from xml.etree import ElementTree

from tinytrain.search.svg_front import Mark, render_front, unbeaten

MARKS = [
    Mark("head", 100, 0.5, False),
    Mark("a <b> & c", 300, 0.75, True),
    Mark("waste", 400, 0.6, False),
]


def test_each_scheme_is_there_once_and_names_are_escaped() -> None:
    text = render_front(MARKS, "m & n", "bytes", "accuracy", 512)
    root = ElementTree.fromstring(text)
    circles = [e for e in root.iter() if e.tag.endswith("circle")]
    assert [c.get("class") for c in circles] == ["tried", "best", "tried"]
    assert "a &lt;b&gt; &amp; c" in text and 'class="budget"' in text
    assert text == render_front(MARKS, "m & n", "bytes", "accuracy", 512)


def test_one_scheme_alone_can_be_drawn() -> None:
    assert "<circle" in render_front(MARKS[:1], "m", "bytes", "accuracy")


def test_the_front_leaves_out_what_is_beaten() -> None:
    assert [m.name for m in unbeaten(MARKS)] == ["head", "a <b> & c"]
