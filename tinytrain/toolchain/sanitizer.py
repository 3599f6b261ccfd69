"""The application as a program of this machine, with address and undefined-behaviour sanitizers.

In: a generated project, a job. Out: its result, or the sanitizers' report as an error. Must not
know graphs.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tinytrain.errors import InternalError
from tinytrain.resources import data_dir
from tinytrain.toolchain.generated import Source, load_generated
from tinytrain.toolchain.host import compile_program
from tinytrain.toolchain.job import Job, JobResult, decode_result, encode_job

_TAIL_LINES = 40


def run_sanitized(source: Source, job: Job, *, timeout_s: float = 600.0) -> JobResult:
    """Run a job in a process of its own.

    Args:
        source: the project's folder, or its files as `codegen.generate` returns them.

    Raises:
        InternalError: the sanitizers found something, or the program failed.
        InputError: not a generated project, or data that does not fit it.
        ToolError: there is no compiler with sanitizers.
    """
    project = load_generated(source)
    ports = data_dir("firmware") / "ports"
    with project.on_disk(application=True) as (sources, includes):
        program = compile_program(
            [*sources, ports / "host" / "tt_port_host.c"],
            include_dirs=[*includes, ports / "qemu"],
            sanitize=True,
        )
    with TemporaryDirectory(prefix="tinytrain-") as folder:
        (Path(folder) / "job.bin").write_bytes(encode_job(project, job))
        variables = {
            "TT_PORT_COMMAND_LINE": "application job.bin result.bin",
            # There is no heap to leak from, and looking for leaks needs rights of a debugger.
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        done = subprocess.run(
            [program],
            cwd=folder,
            env={**os.environ, **variables},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[:_TAIL_LINES])
            raise InternalError(
                "sanitizer",
                "simulator",
                f"the sanitized program ended with code {done.returncode}",
                hint=f"it said:\n{tail}",
            )
        return decode_result(project, job, (Path(folder) / "result.bin").read_bytes())
