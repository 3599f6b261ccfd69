"""The emulator: the project's firmware, built by PlatformIO, run in QEMU over a job.

In: a project folder, a board, a job. Out: results and measurements. Instructions are exact; cycles
are not modelled. Must not know graphs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.boards import Board
from tinytrain.errors import ToolError
from tinytrain.toolchain.generated import Generated, load_generated
from tinytrain.toolchain.job import Job, JobResult, decode_result, encode_job, losses, outputs
from tinytrain.toolchain.platformio import Firmware, build_project
from tinytrain.toolchain.qemu import EmulatorRun, run_firmware

JOB_SUFFIX = "-job"
"""Of the PlatformIO environments that build src/job.c."""

_JOB_FILE, _RESULT_FILE = "job.bin", "result.bin"


@dataclass(frozen=True, eq=False)
class EmulatorReport:
    """What a job in the emulator gave.

    Attributes:
        instructions_infer: median of the inferences, within 40 instructions; None if there were
            none.
        instructions_train_step: median of the training steps; None if there were none.
        instructions_train_steps: of each training step, in turn.
        losses: float32 [steps], of the items that learn.
        outputs: [M, values], of the items that infer.
        stack_bytes: deepest use of the stack.
        data_bss_bytes: variables in RAM: the model's memory and all else but the stack.
        flash_bytes: code and constants.
        code_bytes: the code alone.
        state: the trained state at the end.
        op_instructions: of each operator in the last item, within 40; empty without a profile.
    """

    instructions_infer: int | None
    instructions_train_step: int | None
    instructions_train_steps: tuple[int, ...]
    losses: npt.NDArray[np.float32]
    outputs: npt.NDArray[Any]
    stack_bytes: int
    data_bss_bytes: int
    flash_bytes: int
    code_bytes: int
    state: bytes
    op_instructions: tuple[int, ...] = ()


def emulate(
    project_dir: Path,
    board: Board,
    job: Job,
    *,
    on_line: Callable[[str], None] | None = None,
    timeout_s: float = 600.0,
    profile: bool = False,
    flags: Sequence[str] = (),
) -> EmulatorReport:
    """Build the firmware of a project for `board` and run a job on it.

    Args:
        project_dir: a generated project that has this board.
        on_line: called with each line of the build's output.
        timeout_s: for the run, not the build.
        profile: count each operator of the last item; the counts of whole items then include
            the counting.
        flags: further compiler flags.

    Raises:
        InputError: not a generated project, data that does not fit it, or a firmware too large
            for the board.
        UsageError: the board has no emulated machine.
        ToolError: a tool is missing, or the firmware failed.
    """
    project = load_generated(project_dir)
    content = encode_job(project, job)
    firmware = build_project(
        project_dir,
        f"{board.name}{JOB_SUFFIX}",
        on_line=on_line,
        flags=(*flags, "-DTT_TRACE") if profile else flags,
    )
    with TemporaryDirectory(prefix="tinytrain-") as folder:
        (Path(folder) / _JOB_FILE).write_bytes(content)
        done = run_firmware(
            firmware.elf,
            board,
            arguments=(_JOB_FILE, _RESULT_FILE),
            working_dir=Path(folder),
            timeout_s=timeout_s,
        )
        if done.exit_code != 0:
            raise _failed(firmware, done)
        result = decode_result(project, job, (Path(folder) / _RESULT_FILE).read_bytes())
    check_statuses(result)
    return _report(project, firmware, result)


def _report(project: Generated, firmware: Firmware, result: JobResult) -> EmulatorReport:
    infer = [item.instructions for item in result.items if item.kind == "infer"]
    train = [item.instructions for item in result.items if item.kind == "train"]
    return EmulatorReport(
        instructions_infer=_median(infer),
        instructions_train_step=_median(train),
        instructions_train_steps=tuple(train),
        losses=losses(result.items),
        outputs=outputs(project, result.items),
        stack_bytes=result.stack_bytes,
        data_bss_bytes=firmware.size.data_bytes + firmware.size.bss_bytes,
        flash_bytes=firmware.size.flash_bytes,
        code_bytes=firmware.size.code_bytes,
        state=result.state,
        op_instructions=result.op_instructions,
    )


def check_statuses(result: JobResult) -> None:
    """Refuse a result in which a call ended with an error.

    Raises:
        ToolError: one did.
    """
    for index, item in enumerate(result.items):
        if item.status != 0:
            raise ToolError(
                "runtime-status",
                "emulator",
                f"item {index} of the job ({item.kind}) ended with status {item.status}",
                hint="tt_status.h lists the statuses",
            )


def _median(values: list[int]) -> int | None:
    return int(statistics.median_low(values)) if values else None


def _failed(firmware: Firmware, done: EmulatorRun) -> ToolError:
    what = "stopped in a processor fault" if done.faulted else f"ended with code {done.exit_code}"
    return ToolError(
        "firmware-failed",
        "emulator",
        f"the firmware {what}",
        where=str(firmware.elf),
        hint=f"it printed: {done.stdout.strip()}",
    )
