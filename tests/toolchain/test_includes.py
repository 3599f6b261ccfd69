"""What a translation unit consists of, told without a preprocessor."""

from __future__ import annotations

from pathlib import Path

from tinytrain.toolchain.includes import digest_of_unit


def make(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name[:-1]}.{name[-1]}").write_text(text)
    return folder


def test_a_change_in_a_header_far_away_counts(tmp_path: Path) -> None:
    here = make(
        tmp_path / "here", ac='#include <stdint.h>\n#  include "b.h"\n', bh='#include "d.h"'
    )
    there = make(tmp_path / "there", dh="int d;")
    first = digest_of_unit(here / "a.c", [there])
    assert first is not None and first == digest_of_unit(here / "a.c", [there])
    (there / "d.h").write_text("int e;")
    assert digest_of_unit(here / "a.c", [there]) != first


def test_the_place_does_not_count_but_the_first_folder_wins(tmp_path: Path) -> None:
    one = make(tmp_path / "1", ac='#include "b.h"', bh="int b;")
    two = make(tmp_path / "2", ac='#include "b.h"')
    other = make(tmp_path / "3", bh="int b;")
    shadow = make(tmp_path / "4", bh="int c;")
    assert digest_of_unit(one / "a.c", []) == digest_of_unit(two / "a.c", [other])
    assert digest_of_unit(one / "a.c", []) != digest_of_unit(two / "a.c", [shadow, other])


def test_circles_end(tmp_path: Path) -> None:
    here = make(tmp_path, ac='#include "b.h"', bh='#include "a.c"')
    assert digest_of_unit(here / "a.c", []) is not None


def test_what_cannot_be_told_is_none(tmp_path: Path) -> None:
    assert digest_of_unit(tmp_path / "none.c", []) is None
    here = make(tmp_path, ac='#define WHICH "b.h"\n#include WHICH\n')
    assert digest_of_unit(here / "a.c", []) is None
