"""`simulate`, `compile`, `emulate` and `demo`: commands that run or write C."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Arrays, Call, save
from tinytrain.toolchain.host import compile_program

SIMULATE_KEYS = {
    "accuracy_before", "accuracy_after", "loss", "steps", "samples_per_second", "state_sha256",
}  # fmt: skip
EMULATE_KEYS = {"instructions", "stack_bytes", "data_bss_bytes", "flash_bytes", "state_sha256"}


def test_simulate_as_json(call: Call, model: Path, data: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.bin"
    shown = call(
        "simulate", model, "--scheme", "last:1", "--data", data, "--epochs", "2",
        "--state", state, "--json",
    )  # fmt: skip
    document = shown.document
    assert shown.exit_code == 0 and shown.stderr == ""
    assert set(document) >= SIMULATE_KEYS and document["steps"] == 24
    assert hashlib.sha256(state.read_bytes()).hexdigest() == document["state_sha256"]
    again = call("simulate", model, "--scheme", "last:1", "--data", data, "--epochs", "2", "--json")
    assert again.document["state_sha256"] == document["state_sha256"]
    other = call(
        "simulate", model, "--scheme", "last:1", "--data", data, "--epochs", "2",
        "--seed", "1", "--json",
    )  # fmt: skip
    assert other.document["state_sha256"] != document["state_sha256"]


def test_simulate_for_people(call: Call, model: Path, data: Path) -> None:
    shown = call("simulate", model, "--data", data, "--steps", "5")
    assert shown.exit_code == 0 and shown.stderr == ""
    assert "accuracy before" in shown.stdout and "steps            5" in shown.stdout


def test_simulate_with_a_fresh_classifier(call: Call, model: Path, arrays: Arrays,
                                          tmp_path: Path) -> None:  # fmt: skip
    arrays["y_train"], arrays["y_test"] = np.arange(12) % 3, np.arange(6) % 3
    shown = call(
        "simulate", model, "--classes", "3", "--data", save(tmp_path / "d.npz", arrays),
        "--epochs", "1", "--json",
    )  # fmt: skip
    assert shown.exit_code == 0 and shown.document["steps"] == 12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y_test": None}, "missing arrays y_test"),
        ({"x_train": np.zeros((12, 9, 9, 1), np.int8)}, "the model takes"),
        ({"x_train": np.zeros((12, 8, 8, 1), np.int64)}, "has type int64"),
        ({"x_train": np.full((12, 8, 8, 1), np.nan)}, "not finite"),
        ({"x_train": np.zeros((0, 8, 8, 1), np.int8)}, "empty"),
        ({"y_train": np.arange(11)}, "labels"),
        ({"y_train": np.arange(12) - 1}, "from -1"),
        ({"y_train": np.arange(12.0)}, "labels are integers"),
        ({"y_test": np.arange(6) + 5}, "--classes 11"),
    ],
)
@pytest.mark.parametrize("command", ["simulate", "emulate"])
def test_bad_data(
    call: Call,
    model: Path,
    arrays: Arrays,
    tmp_path: Path,
    change: dict[str, np.ndarray | None],  # type: ignore[type-arg]
    words: str,
    command: str,
) -> None:
    kept = {key: value for key, value in (arrays | change).items() if value is not None}
    path = save(tmp_path / "bad.npz", kept)
    board = ("--board", "mps2-an386") if command == "emulate" else ()
    shown = call(command, model, "--data", path, *board)
    assert shown.exit_code == 1 and shown.stdout == ""
    assert words in " ".join(shown.stderr.split()) and "bad.npz" in shown.stderr


def test_files_that_are_no_data(call: Call, model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.npz"
    text.write_text("not an archive")
    for path in (text, tmp_path, tmp_path / "missing.npz"):
        shown = call("simulate", model, "--data", path)
        assert shown.exit_code == 1 and shown.stderr.startswith("error: ")


def test_compile(call: Call, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "firmware"
    shown = call(
        "compile", model, "--board", "mps2-an500", "--scheme", "full", "-o", folder, "--json"
    )
    document = shown.document
    assert shown.exit_code == 0 and document["board"] == "mps2-an500"
    written = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert written == set(document["files"]) and "platformio.ini" in written
    first = {name: (folder / name).read_bytes() for name in written}
    again = call("compile", model, "--board", "mps2-an500", "--scheme", "full", "-o", folder)
    assert again.exit_code == 0 and f"pio run -d {folder}" in again.stdout
    assert {name: (folder / name).read_bytes() for name in written} == first


def test_compile_with_data_calibrates(call: Call, model: Path, data: Path, tmp_path: Path) -> None:
    options = ("--board", "mps2-an386", "--scheme", "last:1", "-o")
    call("compile", model, *options, tmp_path / "a")
    shown = call("compile", model, *options, tmp_path / "b", "--data", data)
    assert shown.exit_code == 0

    def content(folder: str) -> dict[str, bytes]:
        root = tmp_path / folder
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    before, after = content("a"), content("b")
    assert before.keys() == after.keys()
    weights = next(n for n in before if n.endswith("_weights.c") and "tt_kernels" not in n)
    assert b"_range" in after[weights] and b"_range" not in before[weights]


TWO_MODELS = """
#include "left.h"
#include "right.h"
TT_MEMORY(a, LEFT_MEMORY_BYTES);
TT_MEMORY(b, RIGHT_MEMORY_BYTES);
int main(void)
{
    static tt_model left, right;
    static int8_t input[LEFT_INPUT_BYTES];
    tt_output output;
    int failed = tt_init(&left, &left_program, a, sizeof a) != TT_OK;
    failed |= tt_init(&right, &right_program, b, sizeof b) != TT_OK;
    failed |= tt_set_learning_rate(&right, 0.01f) != TT_OK;
    failed |= tt_train_step(&right, input, tt_class_target(3), NULL) != TT_OK;
    failed |= tt_infer(&left, input, &output) != TT_OK || output.count != 10;
    return failed | (tt_step_index(&left) == tt_step_index(&right));
}
"""


def test_two_models_live_in_one_firmware(call: Call, model: Path, tmp_path: Path) -> None:
    for name, scheme in (("left", "head"), ("right", "full")):
        shown = call(
            "compile", model, "--board", "mps2-an386", "--scheme", scheme, "--name", name,
            "-o", tmp_path / name,
        )  # fmt: skip
        assert shown.exit_code == 0, shown.stderr
    (tmp_path / "two.c").write_text(TWO_MODELS)
    libraries = [tmp_path / "left" / "lib" / name / "src" for name in ("tt_kernels", "tt_runtime")]
    libraries += [tmp_path / name / "lib" / name / "src" for name in ("left", "right")]
    sources = [path for folder in libraries for path in sorted(folder.glob("*.c"))]
    program = compile_program([tmp_path / "two.c", *sources], include_dirs=libraries)
    assert subprocess.run([program], check=False).returncode == 0


@pytest.mark.parametrize("name", ["int", "tt_mine", "Mine", "stdio", "a-b", ""])
def test_compile_refuses_other_names(call: Call, model: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "project"
    shown = call("compile", model, "--board", "mps2-an386", "--name", name, "-o", folder)
    assert shown.exit_code == 1 and "bad-name" in shown.stderr and not folder.exists()


def test_compile_for_several_boards(call: Call, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    boards = ("--board", "mps2-an500", "--board", "pico", "--board", "mps2-an500")
    shown = call("compile", model, *boards, "-o", folder)
    assert shown.exit_code == 0 and "-e mps2-an500 -e pico\n" in shown.stdout
    text = (folder / "platformio.ini").read_text()
    assert "default_envs = mps2-an500" in text and "[env:pico]" in text
    assert json.loads((folder / "manifest.json").read_text())["boards"] == ["mps2-an500", "pico"]
    unknown = call("compile", model, *boards, "--board", "nope", "-o", tmp_path / "other")
    assert unknown.exit_code == 2 and "nope" in unknown.stderr


def test_compile_leaves_foreign_folders_alone(call: Call, model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    shown = call("compile", model, "--board", "mps2-an386", "-o", tmp_path)
    assert shown.exit_code == 1 and "not-a-project" in shown.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.arm
@pytest.mark.qemu
def test_emulate(call: Call, model: Path, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    options = ("--scheme", "last:1", "--data", data, "--steps", "6", "--json")
    shown = call("emulate", model, "--board", "mps2-an386", "-o", folder, *options, "--profile")
    document = shown.document
    operators = document["operators"]
    assert {op["phase"] for op in operators} == {"forward", "backward"}
    assert all(op["instructions"] > 0 for op in operators if op["macs"] > 0)
    assert shown.exit_code == 0 and set(document) >= EMULATE_KEYS
    assert document["instructions"]["train_step"] > document["instructions"]["infer"] > 0
    assert document["steps"] == 6 and (folder / "platformio.ini").is_file()
    assert document["state_sha256"] == document["simulator_state_sha256"]
    small = call("emulate", model, "--board", "mps2-an386", "--optimize", "size", *options).document
    assert small["state_sha256"] == document["state_sha256"]
    assert small["code_bytes"] < document["code_bytes"] < document["flash_bytes"]
    simulated = call("simulate", model, *options).document
    assert simulated["state_sha256"] == document["state_sha256"]


def test_demo(call: Call) -> None:
    shown = call("demo", "--epochs", "5", "--json")
    document = shown.document
    assert shown.exit_code == 0
    assert document["accuracy_after"] > document["accuracy_before"] + 0.2
    assert document["plan"]["fits"] is True


def test_demo_for_people(call: Call) -> None:
    shown = call("demo", "--epochs", "1")
    assert shown.exit_code == 0
    for words in ("quarter turn", "accuracy before", "accuracy after", "fits mps2-an386"):
        assert words in shown.stdout


def test_absurd_numbers_of_steps_are_refused(call: Call, model: Path, data: Path) -> None:
    shown = call("simulate", model, "--data", data, "--steps", "1000000000000")
    assert shown.exit_code == 2 and "steps" in shown.stderr


def test_emulate_needs_something_to_train(call: Call, model: Path, data: Path) -> None:
    shown = call("emulate", model, "--board", "mps2-an386", "--scheme", "none", "--data", data)
    assert shown.exit_code == 2 and "none" in shown.stderr
