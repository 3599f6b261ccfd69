from __future__ import annotations

import numpy as np
import pytest

from tests.support.backward import random_error, run_op
from tests.support.ckernel import Case, assert_kernels
from tests.support.tflite_writer import Array
from tinytrain.ir import Graph, Op, Tensor
from tinytrain.numeric.error_scale import ErrorRequantizer, next_range
from tinytrain.numeric.random import NEAREST
from tinytrain.ops.base import Step
from tinytrain.ops.fold_error import FACTOR_ONE

SHAPE = (1, 3, 5, 7)  # 105 elements: the last mask byte is not full
LOW, HIGH = -20, 90
FACTORS = tuple(int(f) for f in np.linspace(100, FACTOR_ONE, 7))
STEPS = [Step(1, 2, np.float32(0.1)), Step(3, 4, np.float32(0.1), apply=False)]


def _graph(op: Op, values: dict[str, Array], shape: tuple[int, ...]) -> Graph:
    tensors = {n: Tensor(n, v.shape, v.dtype.name) for n, v in values.items()}
    for name, size, dtype in [
        ("result", shape, "int8"),
        ("result_scale", (1,), "float32"),
        ("bits", (-(-int(np.prod(shape)) // 8),), "uint8"),
    ]:
        tensors.setdefault(name, Tensor(name, size, dtype))
    return Graph("errors", tensors, (op,), (), ())


def _run(op: Op, values: dict[str, Array], step: Step, shape: tuple[int, ...] = SHAPE) -> Case:
    graph = _graph(op, values, shape)
    before, after = run_op(graph, op, dict(values), step)
    return Case(op, graph, before, after, step)


def _values(seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    y = rng.integers(LOW, HIGH + 1, SHAPE, dtype=np.int8)
    y[0, 0] = rng.choice(np.array([LOW, HIGH], np.int8), SHAPE[2:])
    return {
        "error": random_error(rng, SHAPE),
        "scale": np.array([0.02], np.float32),
        "y": y,
        # an accumulator unit is 0.02 * 0.3 / FACTOR_ONE
        "range": np.array([0.02 * 0.3 * (20, 127, 1000)[seed % 3]], np.float32),
    }


def _mask(values: dict[str, Array]) -> Case:
    op = Op("clamp_mask", "mask", ("y",), ("bits",), {"act_min": LOW, "act_max": HIGH})
    return _run(op, {"y": values["y"]}, Step())


@pytest.mark.parametrize("source", ["y", "bits", ""])
def test_mask_and_fold(source: str) -> None:
    cases: list[Case] = []
    for seed, step in enumerate(STEPS * 3):
        values = _values(seed)
        mask = _mask(values)
        values["bits"] = mask.after["bits"]
        bounds = {"act_min": LOW, "act_max": HIGH, "gain": 0.3}
        masked = Op("mask_error", "masked", ("error", source), ("result",), bounds)
        folded = Op(
            "fold_error",
            "folded",
            ("error", "scale", source, "range"),
            ("result", "result_scale", "range"),
            {**bounds, "factors": FACTORS, "stream": 9},
        )
        cases += [mask, _run(masked, values, step), _run(folded, values, step)]
        y = values["y"]
        open_ = (y > LOW) & (y < HIGH) if source else np.ones(SHAPE, bool)
        np.testing.assert_array_equal(cases[-2].after["result"], values["error"] * open_)
        real = cases[-1].after["result"] * float(cases[-1].after["result_scale"][0])
        wanted = values["error"] * open_ * np.array(FACTORS) / FACTOR_ONE * 0.02 * 0.3
        if seed % 3 == 1:  # the range fits: off by one rounding at the most
            step_size = float(cases[-1].after["result_scale"][0])
            assert np.max(np.abs(real - wanted)) <= step_size * 1.01
    assert_kernels(cases)


@pytest.mark.parametrize("stream", [9, NEAREST])
@pytest.mark.parametrize("channels", [8, 24, 144])
def test_whole_mask_bytes(channels: int, stream: int) -> None:
    """From ranges that cut nearly every error to ranges that leave nearly none."""
    shape = (1, 2, 3, channels)
    factors = tuple(int(f) for f in np.linspace(5000, FACTOR_ONE, channels))
    cases: list[Case] = []
    for seed, limit in enumerate((0, 3, 60, 110, 127, 140, 400, 20000)):
        rng = np.random.default_rng(seed)
        error = random_error(rng, shape) * rng.integers(0, 2, shape, dtype=np.int8)
        values = {
            "error": error,
            "scale": np.array([0.02], np.float32),
            "bits": rng.integers(0, 256, error.size // 8, dtype=np.uint8),
            "range": np.array([0.02 * 0.3 * limit], np.float32),
        }
        bounds = {"act_min": LOW, "act_max": HIGH, "gain": 0.3}
        masked = Op("mask_error", "masked", ("error", "bits"), ("result",), bounds)
        folded = Op(
            "fold_error",
            "folded",
            ("error", "scale", "bits", "range"),
            ("result", "result_scale", "range"),
            {**bounds, "factors": factors, "stream": stream},
        )
        for step in STEPS:
            cases += [_run(op, values, step, shape) for op in (masked, folded)]
    assert_kernels(cases)


def test_rounding_has_no_bias() -> None:
    requantizer = ErrorRequantizer.for_range(127 * 1024)
    noise = np.random.default_rng(0).integers(0, 65536, 100_000)
    for value in (-700, -3, 5, 900):
        mean = requantizer.apply(np.full(noise.size, value), noise).mean()
        assert mean == pytest.approx(value / 1024, abs=0.02)


@pytest.mark.parametrize("amax", [0, 1, 127, 128, 16383, 16384, 1 << 20, (1 << 30) - 1, 1 << 30])
def test_a_range_fills_the_integers(amax: int) -> None:
    requantizer = ErrorRequantizer.for_range(amax)
    top = int(requantizer.apply(np.array([max(amax, 127)]), np.array([32768]))[0])
    assert 126 <= top <= 127
    assert float(requantizer.scale(np.float32(1.0))) * 127 == pytest.approx(
        max(amax, 127), rel=0.01
    )


def test_the_range_follows_a_peak_at_once_and_decays() -> None:
    unit, low, high = np.float32(0.5), np.float32(50), np.float32(3200)
    assert next_range(low, unit, np.array([-5000])) >= 2500
    slow = next_range(high, unit, np.array([1]))
    assert 0 < slow < high
    assert next_range(high, unit, np.array([1]), calibrating=True) < slow
