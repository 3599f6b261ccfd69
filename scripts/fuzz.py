"""Read damaged model files until time is up; keep every file that is not refused properly.

A damaged file must give `InputError` or a graph that keeps all invariants, in good time. The files
of a seed are always the same. The test suite reads a fixed set of them; this goes on from there.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.reader.test_hostile import SECONDS_A_FILE, bases
from tests.support.mutate import mutate
from tinytrain.analysis import verify
from tinytrain.errors import InputError
from tinytrain.reader import read

FILES_A_SEED = 500


def judge(data: bytes) -> tuple[bool, str]:
    """Read one file; return whether it was accepted, and what went wrong ("" if nothing)."""
    start = time.monotonic()
    accepted, wrong = True, ""
    try:
        verify(read(data))
    except InputError:
        accepted = False
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - start
    if seconds > SECONDS_A_FILE:
        wrong = wrong or f"took {seconds:.1f} s"
    return accepted, wrong


def main() -> int:
    """Fuzz, report, and return 1 if a file was mistreated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="default: 60")
    parser.add_argument("--seed", type=int, default=1, help="first seed, default: 1")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="for bad files")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    sound = bases()
    files = accepted = bad = 0
    seed = options.seed
    while time.monotonic() < end:
        for label, data in mutate(sound, FILES_A_SEED, seed, structure=4096):
            taken, wrong = judge(data)
            files, accepted = files + 1, accepted + taken
            if wrong:
                bad += 1
                options.keep.mkdir(parents=True, exist_ok=True)
                path = options.keep / f"{seed}-{bad}.tflite"
                path.write_bytes(data)
                print(f"{path}: {label}: {wrong}")
            if time.monotonic() >= end:
                break
        seed += 1
    print(
        f"{files:,} files of seeds {options.seed} to {seed - 1}: {accepted:,} accepted, "
        f"{files - accepted - bad:,} refused, {bad:,} mistreated"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
