"""Which interpreter is believed with which tensor, and that they then agree with ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.tflite_builder import Builder
from tinytrain.reader import read
from tinytrain.toolchain.tflite_interpreter import installed_interpreters, load_interpreters
from tinytrain.verify import Comparison, compare

pytestmark = pytest.mark.interpreter


def judged(b: Builder, path: Path) -> dict[str, Comparison]:
    """Tensor -> row, on three random samples."""
    path.write_bytes(b.build())
    graph = read(path)
    x = np.random.default_rng(4).integers(-128, 128, (3, *graph[graph.inputs[0]].shape[1:]))
    rows = compare(graph, load_interpreters(path.read_bytes()), x.astype(np.int8))
    return {row.tensor: row for row in rows}


@pytest.mark.parametrize("shape", [(1, 3, 6), (1, 2, 2, 6)])
@pytest.mark.parametrize("scales", [1, 5])
def test_rows_with_a_scale_a_channel(shape: tuple[int, ...], scales: int, tmp_path: Path) -> None:
    b = Builder()
    weights = np.random.default_rng(3).integers(-90, 91, (5, 6)).astype(np.int8)
    y = b.fully_connected(
        b.input("x", shape, scale=0.1, zero_point=3), weights,
        np.linspace(0.01, 0.05, scales).astype(np.float32), np.arange(5, dtype=np.int32),
        out_scale=0.2, out_zero_point=-4, keep_num_dims=True, name="dense",
    )  # fmt: skip
    b.output(b.relu(y, name="last"))
    rows = judged(b, tmp_path / "rows.tflite")
    assert not any(row.different for row in rows.values())
    trusted = (
        "tflite-runtime" if scales == 1 and "tflite-runtime" in installed_interpreters() else ""
    )
    assert [rows[name].judge for name in ("dense", "last")] == [trusted, trusted]


def test_what_is_overwritten_is_not_compared(tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x", (1, 4, 6), scale=0.1, zero_point=3)
    y = b.reshape(b.relu(x, name="first"), (1, 24), name="flat")
    b.output(b.add(y, y, out_scale=0.2, name="sum"))
    rows = judged(b, tmp_path / "sum.tflite")
    assert not any(row.different for row in rows.values())
    assert rows["sum"].judge and rows["first"].judge in ("", "ai-edge-litert")
