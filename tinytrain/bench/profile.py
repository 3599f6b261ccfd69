"""Instructions of each operator of a program, counted in the emulator.

In: a prepared run, a board with an emulator. Out: `OpCount` values. It builds firmware and runs it;
it prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tinytrain.boards import Board, Region
from tinytrain.ir import Graph
from tinytrain.ops.base import definition
from tinytrain.pipeline import Run
from tinytrain.toolchain.emulator import emulate
from tinytrain.toolchain.job import training_job

ROOM_BYTES = 0x40_0000
PROFILE_STEPS = 3
"""Steps before the operators of the last one are counted; the first of a bound only measures."""


@dataclass(frozen=True)
class OpCount:
    """Instructions of one operator; `macs` are its multiply-accumulates."""

    name: str
    kind: str
    phase: str
    macs: int
    instructions: int


def roomy_board(board: Board) -> Board:
    """The board with as much of `ROOM_BYTES` as the emulator has: counts do not ask what fits."""
    ram = flash = ROOM_BYTES
    if board.emulator is not None:
        ram, flash = (
            min(ROOM_BYTES, n) for n in (board.emulator.ram_bytes, board.emulator.flash_bytes)
        )
    return replace(
        board, ram=Region(board.ram.origin, ram), flash=Region(board.flash.origin, flash)
    )


def op_counts(graph: Graph, instructions: Sequence[int]) -> tuple[OpCount, ...]:
    """The counts of a run (`EmulatorReport.op_instructions`) with names."""
    return tuple(
        OpCount(op.name, op.kind, op.phase.value, definition(op).macs(op, graph), n)
        for op, n in zip(graph.ops, instructions, strict=True)
    )


def profile_run(
    run: Run,
    board: Board,
    directory: Path,
    on_line: Callable[[str], None] | None = None,
) -> tuple[OpCount, ...]:
    """Count each operator of a training step.

    Args:
        directory: the project that `pipeline.emulate` wrote for this run and board.
        on_line: called with each line that the build prints.

    Raises:
        ToolError: a tool is missing or failed.
    """
    data = run.data
    batch = run.prepared.training.options.batch if run.prepared.batches else 0
    samples = max(batch, 1) * -(-PROFILE_STEPS // max(batch, 1))  # whole batches
    turns = run.order[:samples]
    job = training_job(
        data.x_train,
        data.y_train,
        run.rates[: len(turns)],
        order=turns,
        seed=run.seed,
        batch=batch,
    )
    report = emulate(directory, board, job, on_line=on_line, profile=True)
    return op_counts(run.prepared.plan.graph, report.op_instructions)
