"""Send damaged and random frames to the link's C, under sanitizers, until time is up.

The C is tests/firmware/link_driver.c; equal seeds are equal runs. The test suite runs one seed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tinytrain.resources import data_dir
from tinytrain.toolchain.host import STRICT_FLAGS, compile_program

DRIVER = Path(__file__).resolve().parent.parent / "tests" / "firmware" / "link_driver.c"
FRAMES_A_SEED = 100_000


def build() -> Path:
    """Compile the driver with address and undefined-behaviour sanitizers."""
    libraries = data_dir("firmware") / "lib"
    includes = [libraries / "tt_kernels" / "src", libraries / "tt_runtime" / "src"]
    sources = [DRIVER, *sorted(includes[1].glob("*.c"))]
    return compile_program(sources, include_dirs=includes, flags=STRICT_FLAGS, sanitize=True)


def run(program: Path, seed: int, frames: int) -> subprocess.CompletedProcess[str]:
    """Run one seed; a hang is an error too."""
    return subprocess.run(
        [program, str(seed), str(frames)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def main() -> int:
    """Fuzz, report, and return 1 if a check or a sanitizer complained."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="default: 60")
    parser.add_argument("--seed", type=int, default=1, help="first seed, default: 1")
    options, _ = parser.parse_known_args()  # the others are those of fuzz.py
    program = build()
    end = time.monotonic() + options.seconds
    seed = options.seed
    while time.monotonic() < end:
        done = run(program, seed, FRAMES_A_SEED)
        if done.returncode != 0:
            print(f"seed {seed}: code {done.returncode}\n{done.stdout}{done.stderr}")
            return 1
        seed += 1
    frames = (seed - options.seed) * FRAMES_A_SEED
    print(f"{frames:,} frames of seeds {options.seed} to {seed - 1}: no harm done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
