"""The kernels for the DSP extension give the bits of the portable ones: in the emulator, all cases.

Every case that the other files of this folder run on the host runs here on a Cortex-M4.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.arm
@pytest.mark.qemu
def test_all_kernel_cases_on_the_dsp_extension() -> None:
    files = sorted(str(p) for p in HERE.glob("test_*.py") if p.name != "test_dsp.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=HERE.parents[1],
        env={**os.environ, "TINYTRAIN_KERNELS_ON": "mps2-an386"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
