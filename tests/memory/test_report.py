"""The memory map: its figures, as text, as SVG."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.random_plans import GraphBuilder, random_plan
from tinytrain.ir import Graph, Phase, Role
from tinytrain.memory import plan
from tinytrain.memory.live_ranges import align
from tinytrain.memory.report import memory_map
from tinytrain.memory.svg_map import render_svg
from tinytrain.memory.text_map import render_text

SVG = "{http://www.w3.org/2000/svg}"


def small(prefix: str = "") -> Graph:
    """An input, one forward-only tensor, one saved one, an error written in place."""
    builder = GraphBuilder()
    builder.tensor(f"{prefix}x", 40, Role.INPUT)
    for name, nbytes in (("wide", 100), ("kept", 60), ("y", 8), ("e", 8), ("f", 8)):
        builder.tensor(prefix + name, nbytes)
    builder.op("plain", (f"{prefix}x",), (f"{prefix}wide",))
    builder.op("plain", (f"{prefix}wide",), (f"{prefix}kept",), scratch=20)
    builder.op("plain", (f"{prefix}kept",), (f"{prefix}y",))
    builder.op("plain", (f"{prefix}y",), (f"{prefix}e",), Phase.BACKWARD)
    builder.op("unary", (f"{prefix}e",), (f"{prefix}f",), Phase.BACKWARD)
    builder.op("plain", (f"{prefix}f", f"{prefix}kept"), (), Phase.BACKWARD)
    return builder.graph([f"{prefix}y"])


def test_what_holds_the_peak_and_what_it_would_save() -> None:
    memory = memory_map(plan(small()))
    assert [s.live_bytes for s in memory.steps] == [140, 180, 68, 76, 68, 68]
    assert memory.steps[memory.peak].op == "plain_1"
    told = [(h.piece.name, h.piece.kind, h.piece.nbytes, h.saving_bytes) for h in memory.holders]
    assert told == [
        ("wide", "activation", 100, 100),
        ("kept", "saved", 60, 40),
        ("plain_1", "scratch", 20, 20),
    ]
    assert {p.name for p in memory.frees_next} == {"wide", "plain_1"}


def test_pieces_tell_who_made_and_who_used_them() -> None:
    pieces = {p.name: p for p in memory_map(plan(small())).pieces}
    assert (pieces["x"].kind, pieces["x"].made_by, pieces["x"].last_used_by) == (
        "input",
        "",
        "plain_0",
    )
    assert (pieces["kept"].made_by, pieces["kept"].last_used_by) == ("plain_1", "plain_5")
    assert (pieces["e"].start, pieces["e"].end) == (3, 4)
    assert (pieces["f"].start, pieces["f"].end) == (4, 6)
    assert pieces["e"].offset_bytes == pieces["f"].offset_bytes


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 60))
def test_pieces_fill_exactly_the_live_bytes(seed: int) -> None:
    memory = memory_map(random_plan(seed))
    live = [0] * len(memory.steps)
    for piece in memory.pieces:
        for time in range(piece.start, min(piece.end, len(live))):
            live[time] += align(piece.nbytes)
    assert live == [s.live_bytes for s in memory.steps]
    assert max(live) == memory.lower_bound_bytes
    assert all(s.top_bytes <= memory.arena_bytes for s in memory.steps)
    assert json.loads(json.dumps(memory.as_dict()))["arena_bytes"] == memory.arena_bytes


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 60))
def test_text_keeps_to_80_columns(seed: int) -> None:
    text = render_text(memory_map(random_plan(seed)))
    assert max(map(len, text.splitlines())) <= 80
    assert "▲" in text
    assert text == render_text(memory_map(random_plan(seed)))


def test_text_of_a_small_plan() -> None:
    text = render_text(memory_map(plan(small())))
    assert text.startswith("arena 180 bytes, at the lower bound\n")
    assert "peak: 180 bytes at plain_1 (forward)" in text
    assert "      100       100  activation wide, plain_0 .. plain_1" in text
    assert " forward " in text and " backward " in text


def test_long_names_are_cut() -> None:
    text = render_text(memory_map(plan(small("a_very_long_name/" * 8))))
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("prefix", ["", "<&\"'>", "bell\x07/nul\x00/\ud800/", "ü/漢/"])
def test_svg_is_well_formed_whatever_the_names(prefix: str) -> None:
    memory = memory_map(plan(small(prefix)))
    svg = render_svg(memory, f"{prefix} & co")
    root = ElementTree.fromstring(svg.encode())
    pieces = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "piece"]
    assert len(pieces) == len(memory.pieces)
    titles = [r.findtext(f"{SVG}title") or "" for r in pieces]
    assert any("saved, 60 bytes at" in title for title in titles)
    assert svg == render_svg(memory_map(plan(small(prefix))), f"{prefix} & co")


def test_svg_rectangles_stay_in_the_picture() -> None:
    root = ElementTree.fromstring(render_svg(memory_map(random_plan(30)), "big"))
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("x", "0")) + float(rect.get("width", "0")) <= width + 0.2
        assert 0 <= float(rect.get("y", "0")) <= height


def test_a_graph_without_operators() -> None:
    builder = GraphBuilder()
    builder.tensor("x", 16, Role.INPUT)
    memory = memory_map(plan(builder.graph(["x"])))
    assert render_text(memory) == "no operators\n"
    ElementTree.fromstring(render_svg(memory, "empty"))
