"""`inspect`, `plan` and `verify`: commands that read a model and run no C."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Arrays, Call, save
from tests.support.tflite_builder import Builder
from tests.support.tflite_writer import OpSpec, TensorSpec, write_model
from tinytrain import verify
from tinytrain.interp import Interpreter
from tinytrain.ir import Array
from tinytrain.toolchain import tflite_interpreter

PLAN_KEYS = {
    "model", "board", "scheme", "arena_bytes", "lower_bound_bytes", "proven_bound_bytes",
    "gap_bytes", "trained_bytes", "sram_bytes",
    "flash_bytes", "fits", "macs",
}  # fmt: skip


def float_model(folder: Path) -> Path:
    """A model with float32 arithmetic in it, which is not supported."""
    tensors = [TensorSpec(name, (1, 4), "float32") for name in "xyz"]
    path = folder / "float.tflite"
    ops = [OpSpec("RELU", (0,), (1,)), OpSpec("TANH", (1,), (2,))]
    path.write_bytes(write_model(tensors, ops, inputs=(0,), outputs=(2,)))
    return path


def test_inspect(call: Call, model: Path) -> None:
    shown = call("inspect", model)
    assert shown.exit_code == 0
    assert "DEPTHWISE_CONV_2D  depthwise_conv2d_1  1x8x8x16" in shown.stdout
    assert "parameters          8,770" in shown.stdout


def test_inspect_as_json(call: Call, model: Path) -> None:
    document = call("inspect", model, "--json").document
    assert document["supported"] is True and document["parameters"] == 8_770
    assert document["inputs"][0]["shape"] == [1, 8, 8, 1]
    assert [row["operator"] for row in document["rows"]][-1] == "FULLY_CONNECTED"
    layers = [row["layer"] for row in document["rows"] if "POOL" not in row["operator"]]
    numbered = [number for number in layers if number is not None]
    assert numbered == list(range(len(numbered))) and len(numbered) >= 3


def test_what_is_not_supported_is_listed(call: Call, tmp_path: Path) -> None:
    path = float_model(tmp_path)
    shown = call("inspect", path)
    assert shown.exit_code == 1
    assert "RELU" in shown.stderr and "TANH" in shown.stderr and "hint: " in shown.stderr
    error = call("inspect", path, "--json").document["error"]
    assert error["code"] == "unsupported-model"
    assert {row["operator"] for row in error["operators"]} == {"RELU", "TANH"}
    assert all(row["reason"] for row in error["operators"])


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_files_that_are_no_models(call: Call, tmp_path: Path, command: str) -> None:
    text = tmp_path / "text.tflite"
    text.write_text("not a model")
    for path in (text, tmp_path, tmp_path / "missing"):
        shown = call(command, path)
        assert shown.exit_code == 1
        assert shown.stderr.startswith("error: ") and "hint: " in shown.stderr


def test_plan_as_json(call: Call, model: Path) -> None:
    document = call("plan", model, "--board", "mps2-an386", "--scheme", "bias:2", "--json").document
    assert set(document) >= PLAN_KEYS
    assert document["fits"] is True and document["scheme"] == "bias:2"
    assert document["arena_bytes"] >= document["lower_bound_bytes"] > 0
    assert set(document["macs"]) == {"forward", "backward"}


def test_exact_plans(call: Call, model: Path) -> None:
    arguments = ("plan", model, "--board", "mps2-an386", "--scheme", "full", "--json")
    short = call(*arguments).document
    exact = call(*arguments, "--exact", "--time-limit", "2").document
    assert exact["arena_bytes"] <= short["arena_bytes"]
    assert exact["gap_bytes"] == exact["arena_bytes"] - exact["proven_bound_bytes"] >= 0
    assert exact["proven_bound_bytes"] >= exact["lower_bound_bytes"]
    assert call(*arguments, "--time-limit", "0").exit_code == 2


def test_plan_shows_and_draws_the_memory(call: Call, model: Path, tmp_path: Path) -> None:
    svg = tmp_path / "new" / "map.svg"
    shown = call("plan", model, "--board", "mps2-an386", "--scheme", "full", "--svg", svg)
    assert shown.exit_code == 0
    assert "backward" in shown.stdout and "fits mps2-an386   yes" in shown.stdout
    assert ET.parse(svg).getroot().tag.endswith("svg")
    assert [path.name for path in svg.parent.iterdir()] == ["map.svg"]


def test_plan_says_what_giving_up_saves(call: Call, model: Path, tmp_path: Path) -> None:
    arguments = ("plan", model, "--board", "mps2-an386", "--scheme")
    assert "saved without" not in call(*arguments, "bias:2").stdout
    shown = call(*arguments, "bias:2", "--advise").stdout
    assert "SRAM     arena    states  saved without" in shown
    assert "bias of layer" in shown.splitlines()[-1]
    assert "nothing to give up" in call(*arguments, "head", "--advise").stdout
    (candidate,) = call(*arguments, "bias:2", "--advise", "--json").document["advice"]
    smaller = tmp_path / "smaller.json"
    smaller.write_text(json.dumps(candidate["scheme"]))
    before, after = (call(*arguments, s, "--json").document for s in ("bias:2", smaller))
    assert before["sram_bytes"] - after["sram_bytes"] == candidate["saved_bytes"] > 0
    assert "advice" not in before


def test_plan_writes_a_page(call: Call, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "new" / "plan.html"
    arguments = ("plan", model, "--board", "mps2-an386", "--scheme", "last:1", "--html")
    assert call(*arguments, page).exit_code == 0
    first = page.read_bytes()
    assert first.count(b"<svg ") == 1 and b"weights of layer" in first
    sizes = call(*arguments, page, "--json").document
    assert f"SRAM: {sizes['sram_bytes']:,} of {sizes['board_sram_bytes']:,} bytes" in first.decode()
    assert f"Flash: {sizes['flash_bytes']:,} of" in first.decode()
    assert page.read_bytes() == first
    refused = call(*arguments, model)
    assert refused.exit_code == 2 and "is read by the command" in refused.stderr


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--scheme", "bais:2"), 2, "choose head, bias:N"),
        (("--scheme", "last:99"), 1, "the model has only"),
        (("--scheme", "missing.toml"), 1, "missing.toml"),
        (("--classes", "1"), 2, "--classes"),
        (("--tau", "nan"), 2, "--tau"),
        (("--batch", "0"), 2, "--batch"),
        (("--loss", "hinge"), 2, "cross-entropy"),
        (("--loss", "mse", "--classes", "2"), 2, "cross-entropy"),
    ],
)
def test_bad_choices(
    call: Call, model: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    shown = call("plan", model, "--board", "mps2-an386", *options)
    assert shown.exit_code == code
    assert words in shown.stderr and shown.stdout == ""


@pytest.mark.interpreter
def test_verify(call: Call, model: Path, data: Path) -> None:
    for options in ((), ("--data", data)):
        shown = call("verify", model, "--samples", "2", *options)
        assert shown.exit_code == 0, shown.stdout
        assert "\nequal: " in shown.stdout and "NOT EQUAL" not in shown.stdout


@pytest.mark.interpreter
def test_verify_as_json(call: Call, model: Path) -> None:
    document = call("verify", model, "--samples", "3", "--json").document
    assert document["equal"] is True and document["samples"] == 3
    assert document["compared"] == len([row for row in document["rows"] if row["judge"]])
    assert document["compared"] >= document["tensors"] - 1
    assert document["rows"][0]["elements"] == 3 * 1024


@pytest.mark.interpreter
def test_verify_takes_models_with_float_borders(call: Call, tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x", (1, 6), dtype="float32")
    weights = np.arange(-12, 12).reshape(4, 6).astype(np.int8)
    y = b.fully_connected(
        b.quantize(x, out_scale=0.1, out_zero_point=3),
        weights,
        np.array([0.02], np.float32),
        np.zeros(4, np.int32),
        out_scale=0.1,
        out_zero_point=0,
    )
    b.output(b.dequantize(y))
    path = tmp_path / "borders.tflite"
    path.write_bytes(b.build("float borders"))
    assert call("verify", path, "--samples", "2").exit_code == 0


@pytest.mark.interpreter
def test_verify_sees_a_difference(call: Call, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Interpreter):
        def infer(self, x: Array) -> dict[str, Array]:
            values = dict(super().infer(x))
            values["conv2d"] = np.where(values["conv2d"] == 127, 126, values["conv2d"] + 1)
            return values

    monkeypatch.setattr(verify, "Interpreter", Wrong)
    shown = call("verify", model, "--samples", "1")
    assert shown.exit_code == 1 and "NOT EQUAL" in shown.stdout
    assert call("verify", model, "--samples", "1", "--json").document["equal"] is False


def test_verify_without_an_interpreter(
    call: Call, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tflite_interpreter, "installed_interpreters", lambda: ())
    shown = call("verify", model)
    assert shown.exit_code == 3 and "pip install" in shown.stderr


def test_verify_checks_the_data(call: Call, model: Path, arrays: Arrays, tmp_path: Path) -> None:
    del arrays["x_test"]
    shown = call("verify", model, "--data", save(tmp_path / "bad.npz", arrays))
    assert shown.exit_code in (1, 3) and shown.stderr.startswith("error: ")
