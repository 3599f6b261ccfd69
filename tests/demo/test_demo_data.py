"""The demonstration's data and its model: what they are, and that the sensor change hurts."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support import referee
from tinytrain.demo import data
from tinytrain.errors import ToolError

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

Sets = dict[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def sets() -> Sets:
    return data.load()


def test_shapes_and_types(sets: Sets) -> None:
    for part, count in (("train", 400), ("test", 499), ("clean", 499)):
        assert sets[f"x_{part}"].shape == (count, 8, 8, 1)
        assert sets[f"x_{part}"].dtype == np.int8
        assert sets[f"y_{part}"].shape == (count,)
        assert sets[f"y_{part}"].dtype == np.uint8
        assert set(sets[f"y_{part}"]) == set(range(10))


def test_pixels_fill_the_int8_range(sets: Sets) -> None:
    for part in ("train", "test", "clean"):
        assert sets[f"x_{part}"].min() == -128
        assert sets[f"x_{part}"].max() == 127


def test_the_same_data_every_time(sets: Sets) -> None:
    again = data.load()
    assert again.keys() == sets.keys()
    for name, values in sets.items():
        np.testing.assert_array_equal(again[name], values)


def test_no_image_is_in_two_parts() -> None:
    parts = data.split()
    seen = [{image.tobytes() for image in x} for x, _ in (parts.base, parts.train, parts.test)]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]
    assert sum(len(labels) for _, labels in (parts.base, parts.train, parts.test)) == 1797


def test_the_turned_sensor_sees_the_clean_images_turned(sets: Sets) -> None:
    turned = np.rot90(sets["x_clean"], axes=(1, 2))
    np.testing.assert_array_equal(sets["x_test"], turned)
    np.testing.assert_array_equal(sets["y_test"], sets["y_clean"])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.interpreter(name))
        for name in ("tflm", "litert", "tflite-runtime")
    ],
)
def test_model_knows_clean_images_and_not_turned_ones(sets: Sets, name: str) -> None:
    judge = referee.Referee(name, data.MODEL_PATH.read_bytes())
    assert np.mean(judge.classify(sets["x_clean"]) == sets["y_clean"]) >= 0.95
    assert np.mean(judge.classify(sets["x_test"]) == sets["y_test"]) < 0.6


def test_model_operators() -> None:
    kinds = [op.kind for op in referee.operators(data.MODEL_PATH.read_bytes())]
    assert kinds == [
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "CONV_2D",
        "MAX_POOL_2D",
        "CONV_2D",
        "AVERAGE_POOL_2D",
        "RESHAPE",
        "FULLY_CONNECTED",
    ]


def test_missing_scikit_learn_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ToolError) as caught:
        data.load()
    assert "tinytrain[demo]" in caught.value.hint
