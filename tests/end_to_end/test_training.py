"""Generated C equals the interpreter, leaves other memory alone, and is clean under sanitizers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen import generate
from tests.end_to_end.cases import CASES, Array, Case, case_id
from tinytrain.interp import Interpreter
from tinytrain.memory import Plan
from tinytrain.ops.base import Step
from tinytrain.pipeline import Prepared
from tinytrain.toolchain.job import training_job
from tinytrain.toolchain.sanitizer import run_sanitized
from tinytrain.toolchain.simulator import Simulator

STEPS = 8
RATE = 0.02
SEED = 7
GUARD_BYTES = 16


def interpreted_state(prepared: Prepared, x: Array, targets: Array) -> bytes:
    """The state after one calibrating step and one training step a further sample."""
    batch = prepared.training.options.batch
    interpreter = Interpreter(prepared.plan.graph)
    rate = np.float32(np.float32(RATE) / np.float32(batch))
    for index, (sample, target) in enumerate(zip(x, targets, strict=True)):
        step = Step(SEED, index, rate, index > 0, target)
        interpreter.train_step(sample, step)
        if batch > 1 and index > 0 and index % batch == 0:
            interpreter.apply_batch(step)
    return prepared.plan.state.pack(interpreter.state)


def simulated_state(simulator: Simulator, prepared: Prepared, x: Array, targets: Array) -> bytes:
    """The same in C."""
    simulator.set_seed(SEED)
    simulator.set_batch(prepared.training.options.batch)
    simulator.train(x[:1], targets[:1], RATE, apply=False)
    simulator.train(x[1:], targets[1:], RATE)
    return simulator.state()


@pytest.mark.zoo
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_c_trains_as_the_interpreter_does(case: Case, zoo: Path) -> None:
    x = case.inputs(zoo, STEPS + 1)
    prepared = case.prepare(zoo, x)
    targets = case.targets(prepared, len(x))
    simulator = Simulator(prepared.files)
    expected = interpreted_state(prepared, x, targets)
    assert simulated_state(simulator, prepared, x, targets) == expected
    assert expected != prepared.plan.state.pack(Interpreter(prepared.plan.graph).state)


@pytest.mark.zoo
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_nothing_is_written_outside_of_its_tensor(case: Case, zoo: Path) -> None:
    x = case.inputs(zoo, 4)
    prepared = case.prepare(zoo, x)
    targets = case.targets(prepared, len(x))
    spaced, gaps = with_gaps(prepared.plan)
    simulator = Simulator(generate(spaced))
    arena = simulator._memory[-spaced.arena_bytes :]
    for start, end in gaps:
        arena[start:end] = 0x5A
    state = simulated_state(simulator, prepared, x, targets)
    for start, end in gaps:
        assert np.all(arena[start:end] == 0x5A), f"arena bytes {start} to {end} were written"
    assert state == simulated_state(Simulator(prepared.files), prepared, x, targets)


def with_gaps(plan: Plan) -> tuple[Plan, list[tuple[int, int]]]:
    """The plan with every buffer alone in its memory, and the guard zones between them."""
    offsets, scratch, gaps = {}, {}, []
    end = 0
    for buffer in plan.buffers:
        gaps.append((end, end + GUARD_BYTES))
        start = end + GUARD_BYTES
        if buffer.scratch:
            scratch[buffer.name] = start
        offsets.update(dict.fromkeys(buffer.tensors, start))
        end = start + buffer.nbytes
        padded = -(-end // 4) * 4
        gaps.append((end, padded))
        end = padded
    gaps.append((end, end + GUARD_BYTES))
    arena_bytes = end + GUARD_BYTES
    return replace(plan, offsets=offsets, scratch_offsets=scratch, arena_bytes=arena_bytes), gaps


@pytest.mark.zoo
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sanitizers_stay_silent(case: Case, zoo: Path) -> None:
    x = case.inputs(zoo, 4)
    prepared = case.prepare(zoo, x)
    targets = case.targets(prepared, len(x))
    batch = prepared.training.options.batch if prepared.batches else 0
    job = training_job(x, targets, RATE, seed=SEED, batch=batch, infer=x[:1])
    result = run_sanitized(prepared.files, job)
    simulator = Simulator(prepared.files)
    simulator.set_seed(SEED)
    simulator.set_batch(prepared.training.options.batch)
    simulator.train(x, targets, RATE)
    assert result.state == simulator.state()
