"""Job files, and the application that does them on this machine under sanitizers."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from codegen import generate
from tests.codegen.models import CLASSES, tiny_plan
from tinytrain.errors import InputError, InternalError, ToolError
from tinytrain.toolchain.generated import load_generated
from tinytrain.toolchain.job import (
    Job,
    JobItem,
    decode_result,
    encode_job,
    losses,
    outputs,
    training_job,
)
from tinytrain.toolchain.sanitizer import run_sanitized
from tinytrain.toolchain.simulator import Simulator
from tinytrain.train import TrainOptions

RATE = 0.02


def samples(mse: bool = False) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(2)
    x = rng.integers(-128, 128, (10, 6, 6, 3)).astype(np.int8)
    if mse:
        return x, rng.integers(-128, 128, (10, CLASSES)).astype(np.int8)
    return x, rng.integers(0, CLASSES, 10)


@pytest.mark.parametrize("loss", ["cross-entropy", "mse"])
@pytest.mark.parametrize("batch", [1, 4])
def test_sanitized_application_gives_the_simulators_bits(
    tmp_path: Path, loss: str, batch: int
) -> None:
    files = generate(tiny_plan(tmp_path, "full", TrainOptions(loss=loss, batch=batch)))
    x, y = samples(loss == "mse")
    job = training_job(x, y, RATE, seed=9, batch=batch if batch > 1 else 0, infer=x[:3])
    result = run_sanitized(files, job)
    simulator = Simulator(files)
    simulator.set_seed(9)
    simulator.set_batch(batch)
    assert losses(result.items).tobytes() == simulator.train(x, y, RATE).tobytes()
    assert outputs(simulator.project, result.items).tobytes() == simulator.infer(x[:3]).tobytes()
    assert result.state == simulator.state()
    assert [item.applied for item in result.items[:10]] == [(i + 1) % batch == 0 for i in range(10)]


def test_sanitizers_speak(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path))
    kernel = "lib/tt_kernels/src/tt_float_math.h"
    text = files[kernel].decode()
    assert "float sum = 0.0f;" in text
    files[kernel] = text.replace("float sum = 0.0f;", "float sum = scores[1 << 20];").encode()
    x, _ = samples()
    with pytest.raises(InternalError, match="sanitized") as caught:
        run_sanitized(files, Job((JobItem("infer", x[0]),)))
    assert "tt_float_math.h" in caught.value.hint


def test_errors_of_the_runtime_are_results(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path))
    x, _ = samples()
    job = Job(
        (JobItem("train", x[0], CLASSES, 0.1), JobItem("train", x[0], 0, -1.0),
         JobItem("calibrate", x[0], 1), JobItem("infer", x[0]))
    )  # fmt: skip
    items = run_sanitized(files, job).items
    assert [item.status for item in items] == [-4, -1, 0, 0]
    assert items[3].output is not None and items[3].output.shape == (CLASSES,)


def test_jobs_of_other_programs_are_refused(tmp_path: Path) -> None:
    files = generate(tiny_plan(tmp_path))
    x, _ = samples()
    other = load_generated(generate(tiny_plan(tmp_path, seed=5)))
    job = Job((JobItem("infer", x[0]),))
    assert encode_job(other, job) != encode_job(load_generated(files), job)
    with pytest.raises(InternalError) as caught:
        run_sanitized(files, Job(job.items, batch=2))  # it has no batch
    assert "not one for this program" in caught.value.hint


def test_items_that_do_not_fit(tmp_path: Path) -> None:
    project = load_generated(generate(tiny_plan(tmp_path, "full", TrainOptions(loss="mse"))))
    x, y = samples(mse=True)
    for item in (
        JobItem("infer", x[0].astype(np.int16)),
        JobItem("infer", x[0][:3]),
        JobItem("train", x[0], 3),
        JobItem("train", x[0], y[0][:2]),
    ):
        with pytest.raises(InputError, match="of item 0"):
            encode_job(project, Job((item,)))


def test_damaged_results(tmp_path: Path) -> None:
    project = load_generated(generate(tiny_plan(tmp_path)))
    x, _ = samples()
    job = Job((JobItem("infer", x[0]),))
    good = struct.pack("<4s3I", b"TTRS", 1, project.fingerprint, 1)
    good += struct.pack("<ifiIQ", 0, 0.0, 2, 0, 123)
    good += np.ones(CLASSES, np.float32).tobytes()
    good += struct.pack("<2I", 99, project.state_bytes) + bytes(project.state_bytes)
    result = decode_result(project, job, good)
    assert (result.stack_bytes, result.items[0].instructions, result.items[0].best) == (99, 123, 2)
    for bad in (b"", good[:20], good[:-1], good + b"x", b"X" + good[1:], good[:40]):
        with pytest.raises(ToolError, match="cannot be read"):
            decode_result(project, job, bad)
