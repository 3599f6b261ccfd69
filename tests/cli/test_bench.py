from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tinytrain.bench import compare_counts, read_counts, write_counts
from tinytrain.bench.kernels import LAYERS, LIMIT, bench_layer
from tinytrain.boards import get_board
from tinytrain.cli.main import main


def test_a_missing_zoo_is_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["bench", "models", "--zoo", str(tmp_path)])
    assert done.exit_code == 1
    assert "TINYTRAIN_ZOO" in done.output


def test_growth_above_two_percent_is_worse() -> None:
    kept = {"a/m4": 10_000, "b/m4": 10_000, "c/m4": 10_000, "small/m4": 100}
    lines = compare_counts(kept, {"a/m4": 10_240, "b/m4": 10_241, "small/m4": 140})
    assert len(lines) == 1 and lines[0].startswith("b/m4")


def test_counts_are_added_to_those_kept(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    write_counts({"a/m4": 2, "b/m4": 1}, path)
    write_counts({"a/m4": 3}, path)
    assert read_counts(path) == {"a/m4": 3, "b/m4": 1}


@pytest.mark.arm
@pytest.mark.qemu
def test_kernels_of_a_layer(tmp_path: Path) -> None:
    layer = next(layer for layer in LAYERS if layer.name.startswith("depthwise 3x3"))
    board = get_board("mps2-an386")
    counts = bench_layer(layer, board)
    plain = bench_layer(layer, board, portable=True)
    names = {count.operator for count in counts}
    assert {"depthwise_conv2d", "depthwise_conv2d_update", "fold_error", "bias_update"} <= names
    for ours, portable in zip(counts, plain, strict=True):
        assert ours.instructions <= portable.instructions and ours.text_bytes > 0
    forward = counts[0]
    assert forward.macs == 16 * 16 * 64 * 9 and forward.reference == 1_269_288
    assert forward.instructions < LIMIT * forward.reference


@pytest.mark.zoo
@pytest.mark.arm
@pytest.mark.qemu
def test_keyword_spotting_stays_within_its_limit(zoo: Path, tmp_path: Path) -> None:
    kept = tmp_path / "counts.json"
    asked = ["bench", "models", "--zoo", str(zoo), "--model", "kws", "--board", "mps2-an386"]
    done = CliRunner().invoke(main, [*asked, "--write", str(kept)])
    assert done.exit_code == 0, done.output
    assert "kws" in done.output and "5,100,000" in done.output
    again = CliRunner().invoke(main, [*asked, "--compare", str(kept), "--json"])
    assert again.exit_code == 0 and '"worse": []' in again.output


def test_accuracy_without_a_zoo_says_what_to_do(tmp_path: Path) -> None:
    asked = ["bench", "accuracy", "--no-reference", "--zoo", str(tmp_path), "--workers", "1"]
    done = CliRunner().invoke(main, [*asked, "--cache", str(tmp_path / "kept.jsonl")])
    assert done.exit_code == 1
    assert "TINYTRAIN_ZOO" in done.output


@pytest.mark.zoo
def test_accuracy_of_one_cell(zoo: Path, tmp_path: Path) -> None:
    table = tmp_path / "accuracy.json"
    table.write_text('{"rates": []}')
    asked = ["bench", "accuracy", "--no-reference", "--zoo", str(zoo), "--seeds", "1"]
    asked += ["--task", "har_user23_rotated", "--scheme", "head", "--workers", "1"]
    asked += ["--cache", str(tmp_path / "kept.jsonl"), "--write", str(table)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    kept = json.loads(table.read_text())
    assert kept["rates"] == [] and [row["kind"] for row in kept["rows"]] == ["int16", "int8"]
    assert all(15 < row["accuracy"]["mean"] <= 100 for row in kept["rows"])
