"""The files of a project, and how they reach the disk."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from codegen import generate, write_project
from codegen.program import build_program, fingerprint
from tests.codegen.models import CLASSES, tiny_graph, tiny_plan
from tinytrain.boards import get_board
from tinytrain.errors import InputError, InternalError
from tinytrain.memory import plan
from tinytrain.train import TrainOptions

BOARDS = [get_board("mps2-an386"), get_board("mps2-an500")]


def test_same_input_same_bytes(tmp_path: Path) -> None:
    first = generate(tiny_plan(tmp_path), boards=BOARDS, task="five classes")
    second = generate(tiny_plan(tmp_path), boards=BOARDS, task="five classes")
    assert first == second
    assert list(first) == sorted(first)


def test_no_absolute_path_and_no_leftover(tmp_path: Path) -> None:
    for name, data in generate(tiny_plan(tmp_path), boards=BOARDS).items():
        text = data.decode("utf-8")
        assert str(tmp_path) not in text, name
        assert "/home/" not in text and "{{" not in text and "{%" not in text, name
        assert data.endswith(b"\n"), name


def test_layout(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path), boards=BOARDS, name="five")
    assert {name for name in files if "tt_kernels" not in name and "platform/" not in name} >= {
        ".gitignore",
        "README.md",
        "boards/mps2-an386.json",
        "boards/mps2-an386.ld",
        "boards/mps2-an500.ld",
        "lib/five/examples/five_learns/five_learns.ino",
        "lib/five/library.json",
        "lib/five/library.properties",
        "lib/five/src/five.c",
        "lib/five/src/five.h",
        "lib/five/src/five_weights.c",
        "lib/five/src/five_weights.h",
        "lib/tt_port_qemu/tt_port.h",
        "lib/tt_runtime/library.json",
        "lib/tt_runtime/src/tt_runtime.h",
        "manifest.json",
        "platformio.ini",
        "src/main.c",
    }
    assert "lib/tt_kernels/src/tt_kernels.h" in files
    assert "platform/tinytrain-cortexm/builder/main.py" in files
    for name in files:
        if name.endswith("library.json"):
            assert "-ffp-contract=off" in files[name].decode() or "port" in name


def test_without_boards_there_is_nothing_of_platformio(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path))
    assert not [n for n in files if n.startswith(("boards/", "platform"))]
    assert "src/main.c" in files


def test_manifest(tmp_path: Path) -> None:
    made = tiny_plan(tmp_path)
    files = generate(made, boards=BOARDS, task="five classes")
    document = json.loads(files["manifest.json"])
    assert document["boards"] == ["mps2-an386", "mps2-an500"]
    assert document["notes"]["task"] == "five classes"
    assert document["program"]["arena_bytes"] == made.arena_bytes
    assert document["program"]["classes"] == CLASSES
    assert [op["name"] for op in document["ops"]] == [op.name for op in made.graph.ops]
    hashes = {n: hashlib.sha256(d).hexdigest() for n, d in files.items() if n != "manifest.json"}
    assert document["files"] == hashes
    places = {t["name"]: t for t in document["tensors"]}
    for name, offset in made.offsets.items():
        assert (places[name]["memory"], places[name]["offset"]) == ("arena", offset)
    for tensor in made.state.state:
        place = places[tensor.name]
        assert (place["memory"], place["offset"]) == ("state", made.state.offsets[tensor.name])


def test_readable_calls(tmp_path: Path) -> None:
    text = generate(tiny_plan(tmp_path))["lib/tiny/src/tiny.c"].decode()
    assert re.search(
        r"/\* conv2d_0: conv2d, \[1,6,6,3\] -> \[1,3,3,4\] \*/\n    \{\n"
        r"        const tt_conv2d_s8_io io = \{\n"
        r"            \.input = \(int8_t \*\)\(arena \+ \d+\), /\* image int8\[1,6,6,3\] \*/\n",
        text,
    )
    assert "tt_conv2d_update(&" in text
    assert "(const int32_t *)frame->target" in text
    assert "/work" not in text


def test_frozen_weights_stay_in_flash(tmp_path: Path) -> None:
    frozen = build_program(tiny_plan(tmp_path, "bias:all"))
    trained = build_program(tiny_plan(tmp_path, "full"))
    assert frozen.state_bytes < trained.state_bytes
    pointers = [slot.pointer for call in frozen.phases[0].calls for slot in call.slots]
    assert any(p.startswith("tiny_") for p in pointers)
    assert frozen.fingerprint != trained.fingerprint


def test_inference_skips_what_only_training_needs(tmp_path: Path) -> None:
    path = tmp_path / "scheme.toml"
    path.write_text("[[layer]]\nindex = 2\nchannels = [1, 30]\n")
    program = build_program(tiny_plan(tmp_path, str(path)))
    skipped = [call.kernel for call in program.phases[0].calls if call.training_only]
    assert skipped == ["tt_gather_channels"]
    text = generate(tiny_plan(tmp_path, str(path)))["lib/tiny/src/tiny.c"].decode()
    assert "    if (training) {\n        const tt_gather_channels_io io" in text


def test_inference_only(tmp_path: Path) -> None:
    program = build_program(tiny_plan(tmp_path, "none"))
    assert (program.target, program.state_bytes, program.has_backward) == ("none", 0, False)
    assert (program.output.kind, program.output.zero_point) == ("values", 2)


def test_batches_have_buffers(tmp_path: Path) -> None:
    program = build_program(tiny_plan(tmp_path, "full", TrainOptions(batch=4)))
    assert program.has_apply
    assert program.buffer_bytes > 0
    assert program.memory_bytes == (
        program.state_bytes + program.buffer_bytes + program.arena_bytes
    )


def test_fingerprint_does_not_depend_on_the_order(tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path)
    assert fingerprint(graph) == fingerprint(replace(graph, ops=tuple(reversed(graph.ops))))
    assert fingerprint(graph) != fingerprint(tiny_graph(tmp_path, seed=4))


def test_float_inputs_are_refused(tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path)
    image = replace(graph[graph.inputs[0]], dtype="float32")
    made = replace(tiny_plan(tmp_path), graph=graph.with_ops(graph.ops, [image]))
    with pytest.raises(InputError, match="int8 input"):
        build_program(made)


def test_a_loss_that_does_not_last_is_refused(tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path)
    forgotten = replace(graph, outputs=graph.outputs[:1])
    with pytest.raises(InternalError, match="not an output"):
        build_program(plan(forgotten))


# ---- on disk ----


def read_back(folder: Path) -> dict[str, bytes]:
    paths = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}


def test_written_as_generated(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path), boards=BOARDS)
    write_project(files, tmp_path / "deep" / "project")
    assert read_back(tmp_path / "deep" / "project") == files
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["project"]


def test_own_projects_are_replaced_but_their_builds_kept(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    digest = hashlib.sha256(b"").hexdigest()
    listed = json.dumps({"files": {"old.txt": digest}}).encode()
    write_project({"manifest.json": listed, "old.txt": b""}, folder)
    (folder / ".pio").mkdir()
    (folder / ".pio" / "object.o").write_bytes(b"o")
    write_project({"manifest.json": b"{}\n", "new.txt": b""}, folder)
    assert read_back(folder) == {
        "manifest.json": b"{}\n",
        "new.txt": b"",
        ".pio/object.o": b"o",
    }


@pytest.mark.parametrize("name", ["src/main.c", "mine.txt", ".git/HEAD"])
def test_changes_and_additions_are_not_lost(name: str, tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path), boards=BOARDS)
    folder = tmp_path / "project"
    write_project(files, folder)
    write_project(files, tmp_path / "project" / ".." / "project")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    with pytest.raises(InputError, match=name):
        write_project(files, folder)
    assert (folder / name).read_text() == "mine"


def test_the_working_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"manifest.json": b"{}\n"}
    write_project(files, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    with pytest.raises(InputError, match="runs in"):
        write_project(files, Path("."))


def test_empty_folders_are_filled(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    write_project({"manifest.json": b"{}\n"}, tmp_path / "project")
    assert (tmp_path / "project" / "manifest.json").is_file()


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years")
    with pytest.raises(InputError, match="not generated by tinytrain") as caught:
        write_project({"manifest.json": b"{}\n"}, folder)
    assert caught.value.hint
    assert read_back(folder) == {"thesis.txt": b"years"}


def test_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError):
        write_project({"manifest.json": b"{}\n"}, tmp_path / "file")
    with pytest.raises(InputError):
        write_project({"manifest.json": b"{}\n"}, tmp_path / "file" / "project")
    assert (tmp_path / "file").read_text() == "x"
