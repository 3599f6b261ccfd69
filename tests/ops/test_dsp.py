"""The kernels for extensions give the bits of the portable ones, in the emulator.

Every test of this folder that runs kernels on the host runs them here on a Cortex-M4 and on a
Cortex-M7; those of operators with a kernel for the vector extension, on a Cortex-M55.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ckernel import KERNELS

HERE = Path(__file__).resolve().parent


def _kernel_tests() -> list[str]:
    """Ids of the tests that call `assert_kernels`."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                if "assert_kernels" in names:
                    found.append(f"{path}::{node.name}")
    return found


@pytest.mark.arm
@pytest.mark.qemu
@pytest.mark.parametrize("board", ["mps2-an386", "mps2-an500"])
def test_all_kernel_cases_on_the_dsp_extension(board: str) -> None:
    tests = _kernel_tests()
    assert len(tests) > 20
    _run_on(board, tests)


@pytest.mark.arm
@pytest.mark.qemu
def test_kernel_cases_on_the_vector_extension() -> None:
    made = {path.stem[len("tt_") : -len("_s8_mve")] for path in KERNELS.glob("*_mve.c")}
    files = {str(HERE / f"test_{operator}.py") for operator in made}
    tests = [test for test in _kernel_tests() if test.split("::")[0] in files]
    assert made and {test.split("::")[0] for test in tests} == files
    _run_on("mps3-an547", [test for test in tests if "backward" not in test])


def _run_on(board: str, tests: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=HERE.parents[1],
        env={**os.environ, "TINYTRAIN_KERNELS_ON": board},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
