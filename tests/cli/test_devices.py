"""`flash`, `train`, `monitor` and `state`: commands that talk to a device."""

from __future__ import annotations

import hashlib
import signal
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress

from tests.cli.conftest import Arrays, Call, save
from tinytrain.cli import flash
from tinytrain.cli.train import progress_bar
from tinytrain.toolchain.elf import FirmwareSize
from tinytrain.toolchain.link import Link, StepReport, Watcher
from tinytrain.toolchain.platformio import Firmware
from tinytrain.toolchain.simulator import Simulator
from tinytrain.toolchain.state_file import decode_state


@pytest.fixture
def project(call: Call, model: Path, data: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "firmware"
    shown = call(
        "compile", model, "--board", "mps2-an386", "--scheme", "bias:all", "--data", data,
        "-o", folder,
    )  # fmt: skip
    assert shown.exit_code == 0, shown.stderr
    return folder


def test_train_the_simulator(call: Call, model: Path, data: Path, project: Path) -> None:
    shown = call(
        "train", "--project", project, "--simulator", "--data", data, "--epochs", "2", "--json"
    )
    document = shown.document
    assert shown.exit_code == 0 and shown.stderr == ""
    assert (document["steps"], document["step_index"], document["saved"]) == (24, 24, 1)
    assert document["scheme"] == "bias:all" and document["device"] == "digits"
    assert not document["interrupted"] and 0 <= document["after"] <= 1
    simulated = call(
        "simulate", model, "--scheme", "bias:all", "--data", data, "--epochs", "2", "--json"
    )
    # The project was calibrated with the options that `compile` had, which are the same.
    assert document["state_sha256"] == simulated.document["state_sha256"]


def test_train_in_batches(
    call: Call, model: Path, data: Path, project: Path, tmp_path: Path
) -> None:
    options = ("--scheme", "bias:all", "--batch", "4", "--data", data)
    folder = tmp_path / "batches"
    assert call("compile", model, "--board", "mps2-an386", *options, "-o", folder).exit_code == 0
    run = ("--data", data, "--steps", "11", "--json")
    shown = call("train", "--project", folder, "--simulator", "--batch", "4", *run).document
    assert (shown["steps"], shown["batch"]) == (8, 4)
    simulated = call("simulate", model, *options, "--steps", "11", "--json").document
    assert shown["state_sha256"] == simulated["state_sha256"]
    refused = call("train", "--project", project, "--simulator", "--batch", "4", *run)
    assert refused.exit_code == 2 and refused.document["error"]["code"] == "no-batch"


def test_train_for_people(call: Call, data: Path, project: Path) -> None:
    shown = call("train", "--project", project, "--simulator", "--data", data, "--steps", "5")
    assert shown.exit_code == 0 and "samples a second" in shown.stdout
    assert "sha256" in shown.stdout and "as number 1" in shown.stdout
    assert "of the error tensors" in shown.stdout


def test_the_bar_shows_saturation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    texts: list[str] = []
    monkeypatch.setattr(Progress, "update", lambda *_, figures="", **__: texts.append(figures))
    with progress_bar(2, np.array([1, 0]), np.array([0, 1])) as show:
        assert show is not None
        show(StepReport(0.5, 1, 0, True, errors=4, saturated=1))
        show(StepReport(1.5, 1, 1, True, errors=4, saturated=0))
    assert "loss 1.0000  accuracy 0.500  saturated 12.5%" in texts[-1]


def test_ctrl_c_stops_at_a_known_state(
    call: Call, data: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Link.train

    def interrupted(link: Link, *values: object, on_step: Watcher | None = None, **more: object):  # type: ignore[no-untyped-def]
        def watch(report: StepReport) -> None:
            if report.step_index == 20:
                signal.raise_signal(signal.SIGINT)

        return train(link, *values, on_step=watch, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Link, "train", interrupted)
    before = signal.getsignal(signal.SIGINT)
    shown = call(
        "train", "--project", project, "--simulator", "--data", data, "--epochs", "90", "--json"
    )
    document = shown.document
    assert shown.exit_code == 130 and document["interrupted"]
    assert 21 <= document["steps"] == document["step_index"] <= 30
    assert document["saved"] == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_monitor(call: Call, project: Path) -> None:
    shown = call("monitor", "--project", project, "--simulator", "--json")
    assert shown.document["hello"]["name"] == "digits"
    assert shown.document["statistics"]["trained"] == 0
    assert "fingerprint" in call("monitor", "--project", project, "--simulator").stdout


def test_state_to_a_file_and_back(call: Call, project: Path, tmp_path: Path) -> None:
    where = ("--project", project, "--simulator")
    file = tmp_path / "a.state"
    pulled = call("state", "pull", file, *where, "--json").document
    state = decode_state(file.read_bytes(), "a").state
    assert state == Simulator(project).state()
    assert pulled["state_sha256"] == hashlib.sha256(state).hexdigest()
    assert call("state", "push", file, *where, "--json").document["saved"] == 1
    same = call("state", "diff", file, *where, "--json")
    assert same.exit_code == 0 and same.document["equal"]
    assert {row["tensor"] for row in same.document["tensors"]} >= {"head_bias", "head_weights"}


def test_states_that_do_not_fit(call: Call, model: Path, project: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "a.state", tmp_path / "other"
    where = ("--project", project, "--simulator")
    assert call("state", "pull", file, *where).exit_code == 0
    assert call("compile", model, "--board", "mps2-an386", "-o", other).exit_code == 0
    shown = call("state", "push", file, "--project", other, "--simulator")
    assert shown.exit_code == 1 and "other-program" in shown.stderr
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    shown = call("state", "push", file, *where)
    assert shown.exit_code == 1 and "damaged" in shown.stderr
    file.write_bytes(b"no")
    assert "not a state file" in call("state", "diff", file, *where).stderr


def test_which_device(call: Call, data: Path, project: Path, tmp_path: Path) -> None:
    none = call("train", "--data", data)
    assert none.exit_code == 2 and "choose one of" in none.stderr
    both = call("train", "--data", data, "--port", "x", "--simulator", "--project", project)
    assert both.exit_code == 2
    assert "need --project" in call("train", "--data", data, "--emulator").stderr
    gone = call("train", "--data", data, "--port", tmp_path / "ttyACM7")
    assert gone.exit_code == 3 and "cannot be opened" in gone.stderr
    unknown = call("flash", project, "--board", "pico", "--build-only")
    assert unknown.exit_code == 2 and "mps2-an386" in unknown.stderr


@pytest.mark.arm
@pytest.mark.qemu
def test_flash_and_train_the_emulator(call: Call, data: Path, project: Path) -> None:
    built = call("flash", project, "--json").document
    assert not built["uploaded"] and Path(built["firmware"]).is_file()
    assert 0 < built["ram_bytes"] < built["board_ram_bytes"]
    where = ("--project", project, "--data", data, "--json")
    emulated = call("train", "--emulator", *where, "--steps", "20").document
    simulated = call("train", "--simulator", *where, "--steps", "20").document
    assert emulated["state_sha256"] == simulated["state_sha256"]
    again = call("train", "--emulator", *where, "--steps", "4").document
    assert (again["step_index"], again["saved"]) == (24, 2)
    fresh = call("train", "--emulator", *where, "--steps", "20", "--fresh").document
    assert fresh["state_sha256"] == simulated["state_sha256"]


def test_flash_uploads_to_a_real_board(
    call: Call, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pico"
    assert call("compile", model, "--board", "pico", "-o", folder).exit_code == 0
    asked: list[tuple[str, str | None]] = []

    def build(_: Path, name: str, **__: object) -> Firmware:
        return Firmware(folder / "firmware.elf", folder / "map", FirmwareSize(9, 8, 7, 6), "")

    def upload(_: Path, name: str, *, port: str | None, on_line: object) -> str:
        asked.append((name, port))
        return ""

    monkeypatch.setattr(flash, "build_project", build)
    monkeypatch.setattr(flash, "upload_project", upload)
    assert call("flash", folder, "--build-only", "--json").document["uploaded"] is False
    assert asked == []
    assert call("flash", folder, "--port", "/dev/ttyACM0", "--json").document["uploaded"] is True
    assert asked == [("pico", "/dev/ttyACM0")]


def test_an_emulator_has_no_port(call: Call, project: Path) -> None:
    shown = call("flash", project, "--port", "/dev/ttyACM0")
    assert shown.exit_code == 2 and "emulated" in shown.stderr


def test_a_board_goes_with_the_emulator_alone(call: Call, project: Path) -> None:
    shown = call("monitor", "--project", project, "--simulator", "--board", "nope")
    assert shown.exit_code == 2 and "--emulator" in shown.stderr


def test_a_state_replaces_no_other_file(call: Call, project: Path, data: Path) -> None:
    content = data.read_bytes()
    shown = call("state", "pull", data, "--project", project, "--simulator")
    assert shown.exit_code == 1 and "bad-state-file" in shown.stderr
    assert data.read_bytes() == content


def test_samples_must_have_the_shape_of_the_project(
    call: Call,
    project: Path,
    arrays: Arrays,
    tmp_path: Path,
) -> None:
    for key in ("x_train", "x_test"):
        arrays[key] = arrays[key].reshape(-1, 4, 16, 1)
    shown = call(
        "train", "--project", project, "--simulator", "--data", save(tmp_path / "b.npz", arrays)
    )
    assert shown.exit_code == 1 and "x_train has shape" in shown.stderr
