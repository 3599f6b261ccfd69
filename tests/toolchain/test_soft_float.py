"""Where there is no FPU, software takes its place only outside of inner loops.

Cortex-M3 in QEMU, which logs each block of code that it enters; calls of the compiler's float
functions are counted, and compared with the multiply-adds of the same step.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from codegen import generate, write_project
from tinytrain.analysis import graph_cost
from tinytrain.boards import get_board
from tinytrain.demo.data import MODEL_PATH
from tinytrain.pipeline import Training, prepare
from tinytrain.toolchain.generated import load_generated
from tinytrain.toolchain.job import encode_job, training_job
from tinytrain.toolchain.platformio import build_project
from tinytrain.toolchain.qemu import qemu_command

pytestmark = [pytest.mark.arm, pytest.mark.qemu]

BOARD = get_board("mps2-an385")
FLOAT = re.compile(r"__(aeabi_)?c?(f|float|fix|add|sub|mul|div|[lgne][et])\w*$|\w*sqrtf$")
ENTERED = re.compile(r"Trace \d+: 0x[0-9a-f]+ \[[0-9a-f]+/([0-9a-f]+)/")


def float_calls(elf: Path, job: bytes, folder: Path) -> int:
    """Blocks that begin where a float function begins, while a job runs."""
    names = subprocess.run(["arm-none-eabi-nm", elf], capture_output=True, text=True, check=True)
    rows = [line.split() for line in names.stdout.splitlines()]
    starts = {
        f"{int(row[0], 16) & ~1:08x}" for row in rows if len(row) == 3 and FLOAT.match(row[2])
    }
    assert len(starts) > 10
    (folder / "job.bin").write_bytes(job)
    command = [*qemu_command(elf, BOARD, ("job.bin", "result.bin"))]
    log = [*command, "-d", "exec,nochain", "-D", "log"]
    subprocess.run(log, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    with (folder / "log").open() as lines:
        return sum((m := ENTERED.match(line)) is not None and m[1] in starts for line in lines)


def test_no_float_in_inner_loops_on_cortex_m3(tmp_path: Path) -> None:
    prepared = prepare(Training(MODEL_PATH, "full"))
    write_project(generate(prepared.plan, boards=[BOARD]), tmp_path / "project")
    firmware = build_project(tmp_path / "project", f"{BOARD.name}-job")
    project = load_generated(tmp_path / "project")
    x = np.random.default_rng(0).integers(-128, 128, (3, 8, 8, 1)).astype(np.int8)
    counts = []
    for steps in (1, 3):
        job = training_job(x[:steps], np.zeros(steps, int), 0.01, infer=x[:1])
        counts.append(float_calls(firmware.elf, encode_job(project, job), tmp_path))
    calls = (counts[1] - counts[0]) / 2
    macs = sum(op.macs for op in graph_cost(prepared.graph).ops)
    assert 0 < calls < 0.01 * macs, (calls, macs)
