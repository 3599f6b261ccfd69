"""Data files: what is accepted, converted, refused; and 2,000 damaged ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.support.mutate import mutate_npz
from tinytrain.errors import InputError
from tinytrain.ir import Tensor
from tinytrain.numeric.quantize import Quant
from tinytrain.reader.dataset import Dataset, read_dataset

INPUT = Tensor("x", (1, 2, 3), "int8", quant=Quant((0.5,), 3))
OUTPUT = Tensor("y", (1, 2, 3), "int8", quant=Quant((0.25,), -7))


def arrays() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (6, 2, 3)).astype(np.int8)
    y = np.arange(6, dtype=np.uint8) % 3
    return {"x_train": x, "y_train": y, "x_test": x[:4], "y_test": y[:4]}


def load(path: Path, output: Tensor | None = None) -> Dataset:
    return read_dataset(path, INPUT, output=output, classes=3)


def test_damaged_files_are_refused_or_right(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    accepted = 0
    for label, content in mutate_npz(arrays(), 2000, seed=1):
        path.write_bytes(content)
        try:
            data = load(path)
        except InputError:
            continue
        accepted += 1
        assert data.x_train.dtype == np.int8 and data.x_train.shape[1:] == (2, 3), label
        assert data.y_train.max() < 3 and len(data.y_train) == len(data.x_train), label
    assert accepted < 2000


def test_samples_become_targets_at_the_scale_of_the_output(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x_train=arrays()["x_train"], x_test=arrays()["x_test"])
    data = load(path, OUTPUT)
    real = (data.x_train.astype(float) - 3) * 0.5
    target = (data.y_train.astype(float) + 7) * 0.25
    inside = np.abs(data.y_train.astype(int)) < 127
    np.testing.assert_allclose(target[inside], real[inside], atol=0.125)


@pytest.mark.parametrize(
    "change",
    [
        {"x_train": np.zeros((6, 2, 4), np.int8)},
        {"x_train": np.zeros((6, 2, 3), np.int32)},
        {"x_train": np.full((6, 2, 3), np.nan, np.float32)},
        {"y_train": np.zeros(5, np.uint8)},
        {"y_train": np.full(6, 3, np.uint8)},
        {"y_train": np.full(6, -1)},
        {"y_train": np.zeros(6, np.float32)},
        {"x_test": np.zeros((0, 2, 3), np.int8), "y_test": np.zeros(0, np.uint8)},
    ],
)
def test_wrong_arrays_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, **{**arrays(), **change})  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_other_types_are_converted(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    whole = arrays()
    real = np.full((6, 2, 3), 2.0, np.float32)
    np.savez(path, **{**whole, "x_train": real})
    assert load(path).x_train[0, 0, 0] == 7  # 2 / 0.5 + 3
    np.savez(path, **{**whole, "x_train": np.full((6, 2, 3), 10, np.uint8)})
    assert load(path).x_train[0, 0, 0] == 23  # the input reaches 62: pixels are taken as they are


@pytest.mark.parametrize(
    "shape", [(6, 2, 3), (6, 6), (6, 1, 2, 3), (6, 2, 1, 3), (6, 2, 3, 1), (6, 1, 6), (6, 6, 1, 1)]
)
def test_shapes_that_can_only_mean_one_thing(tmp_path: Path, shape: tuple[int, ...]) -> None:
    given = arrays()
    x = given["x_train"]
    np.savez(tmp_path / "data.npz", **{**given, "x_train": x.reshape(shape)})
    assert np.array_equal(load(tmp_path / "data.npz").x_train, x)


@pytest.mark.parametrize(
    "shape", [(6, 3, 2), (6, 1, 3, 2), (6, 2, 3, 2), (3, 2, 6), (12, 3), (36,)]
)
def test_other_orders_of_axes_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    given = arrays()
    x = np.resize(given["x_train"], shape)
    np.savez(tmp_path / "data.npz", **{**given, "x_train": x})
    with pytest.raises(InputError, match="x_train has shape") as caught:
        load(tmp_path / "data.npz")
    assert "order of axes" in caught.value.hint


def test_a_single_array_is_no_data_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", arrays()["x_train"])
    with pytest.raises(InputError, match="one array") as caught:
        load(tmp_path / "x.npy")
    assert "x_train, y_train" in caught.value.hint


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(InputError, match="not a regular file"):
        load(tmp_path / "pipe.npz")
