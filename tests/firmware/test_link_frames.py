"""The device's end of a link against damaged and random frames, under sanitizers."""

from __future__ import annotations

import subprocess

from scripts.fuzz_link import build, run


def test_a_hundred_thousand_damaged_and_random_frames() -> None:
    program = build()
    done = run(program, seed=1, frames=100_000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("100000 frames")
    damaged = int(done.stdout.split()[2])
    assert damaged > 40_000


def test_equal_seeds_are_equal_runs() -> None:
    program = build()
    first: subprocess.CompletedProcess[str] = run(program, seed=7, frames=2_000)
    assert first.returncode == 0 and first.stdout == run(program, seed=7, frames=2_000).stdout
