"""Instructions of whole models and of each of their operators.

In: the zoo of models, a board with an emulator. Out: `Count` values. It builds firmware and runs
it; it prints nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from codegen import generate, write_project
from tinytrain.bench.profile import OpCount, op_counts, roomy_board
from tinytrain.boards import Board
from tinytrain.pipeline import (
    Prepared,
    RunOptions,
    Training,
    calibrate,
    prepare_graph,
    read_data,
)
from tinytrain.reader import read
from tinytrain.search import Pick
from tinytrain.toolchain.emulator import EmulatorReport, emulate
from tinytrain.toolchain.job import Job, JobItem
from tinytrain.train import SchemeTable, TrainOptions

SPARSE_49KB = Pick(20, ((24, 0.25), (27, 0.5), (30, 0.5))).table
"""The scheme "49kb" that MCUNetV3 was published with."""

RATE = 0.01
STEPS = 3


@dataclass(frozen=True)
class BenchModel:
    """A model of the zoo and what is counted of it.

    Attributes:
        name: of the row.
        file: stem of the model's file.
        task: stem of the file with real samples.
        scheme: "none" counts an inference, another one a training step.
        reference: published or measured instructions of another project, by core.
        limit: what this project must reach, by core.
    """

    name: str
    file: str
    task: str
    scheme: str | SchemeTable = "none"
    classes: int | None = None
    reference: tuple[tuple[str, int], ...] = ()
    limit: tuple[tuple[str, int], ...] = ()


def _pair(m7: int, m4: int) -> tuple[tuple[str, int], ...]:
    return (("cortex-m7", m7), ("cortex-m4", m4))


MODELS = (
    BenchModel(
        "resnet8", "mlperf_pretrainedResnet_quant", "resnet8_clean_test",
        reference=_pair(29_932_745, 29_868_923), limit=_pair(19_500_000, 19_500_000),
    ),
    BenchModel(
        "vww", "mlperf_vww_96_int8", "vww_coco_test",
        reference=_pair(24_474_618, 24_711_278), limit=_pair(16_000_000, 16_000_000),
    ),
    BenchModel(
        "kws", "mlperf_kws_ref_model", "kws_digits",
        reference=_pair(7_756_139, 7_840_261), limit=_pair(5_100_000, 5_100_000),
    ),
    BenchModel(
        "mcunet-49kb", "mcunet-5fps", "mcunet_signs", SPARSE_49KB, 10,
        reference=_pair(106_364_581, 120_099_738), limit=_pair(53_000_000, 60_000_000),
    ),
)  # fmt: skip
"""What `tinytrain bench models` counts."""


@dataclass(frozen=True)
class Count:
    """Instructions of a model on a board.

    Attributes:
        instructions: of an inference, or of a whole training step.
        forward, backward: sums over the operators of the phases.
        code_bytes: flash that code takes; `flash_bytes` has weights and tables as well.
    """

    name: str
    board: str
    core: str
    instructions: int
    forward: int
    backward: int
    flash_bytes: int
    code_bytes: int
    stack_bytes: int
    arena_bytes: int
    ops: tuple[OpCount, ...]


def bench_model(model: BenchModel, board: Board, zoo: Path) -> Count:
    """Build, run and count.

    Raises:
        TinytrainError: as reading, building and running say.
    """
    roomy = roomy_board(board)
    with TemporaryDirectory(prefix="tinytrain-bench-") as folder:
        prepared, job = _prepare(model, zoo)
        project = Path(folder) / "project"
        write_project(generate(prepared.plan, boards=(roomy,), name="bench"), project)
        whole = emulate(project, roomy, job)
        profile = emulate(project, roomy, job, profile=True)
    return _count(model, board, prepared, whole, profile)


def _prepare(model: BenchModel, zoo: Path) -> tuple[Prepared, Job]:
    path = zoo / "models" / f"{model.file}.tflite"
    training = Training(path, model.scheme, TrainOptions(classes=model.classes))
    graph = read(path)
    task = zoo / "tasks" / f"{model.task}.npz"
    if model.scheme == "none":
        with np.load(task) as file:
            sample = file["x_test"][0]
        return prepare_graph(graph, training), Job((JobItem("infer", sample),))
    data = read_data(task, graph, training.options)
    prepared = calibrate(prepare_graph(graph, training, data.x_train), data, RunOptions())
    items = [
        JobItem("train", data.x_train[i], data.y_train[i], RATE)
        for i in range(STEPS)
    ]  # fmt: skip
    return prepared, Job(tuple(items))


def _count(
    model: BenchModel,
    board: Board,
    prepared: Prepared,
    whole: EmulatorReport,
    profile: EmulatorReport,
) -> Count:
    ops = op_counts(prepared.plan.graph, profile.op_instructions)
    forward = sum(op.instructions for op in ops if op.phase == "forward")
    total = whole.instructions_infer
    if total is None:
        total = whole.instructions_train_step
    assert total is not None
    return Count(
        name=model.name,
        board=board.name,
        core=board.core,
        instructions=total,
        forward=forward,
        backward=sum(op.instructions for op in ops) - forward,
        flash_bytes=whole.flash_bytes,
        code_bytes=whole.code_bytes,
        stack_bytes=whole.stack_bytes,
        arena_bytes=prepared.plan.arena_bytes,
        ops=ops,
    )
