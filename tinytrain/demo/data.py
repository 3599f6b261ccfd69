"""The demonstration's data: scikit-learn's handwritten digits, before and after a sensor change.

In: `sklearn.datasets.load_digits` (1,797 images of 8x8 pixels, part of the scikit-learn package).
Out: int8 NHWC arrays at the input scale of `MODEL_PATH`, the same on every machine.

The story: the model was trained on one half of the images. Then the camera is mounted a quarter
turn the wrong way. 400 images of the other half, turned, are there to learn from on the device;
the rest is the test set. Must not know: the model's insides, training, the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.errors import ToolError
from tinytrain.numeric.quantize import Quant, quantize

MODEL_PATH = Path(__file__).with_name("digits.tflite")
"""The int8 model that `scripts/make_digits.py` made."""

INPUT_QUANT = Quant((1 / 255,), -128)
"""The model's input: a pixel of 0 is -128, a pixel of 1 is 127."""

BASE_IMAGES = 898
TRAIN_IMAGES = 400
SPLIT_SEED = 0

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Split:
    """Images (N, 8, 8, 1) with pixels from 0 to 1, and labels (N,); no image is in two parts."""

    base: tuple[Images, Labels]
    train: tuple[Images, Labels]
    test: tuple[Images, Labels]


def load() -> dict[str, npt.NDArray[Any]]:
    """Return the demonstration's arrays by name.

    `x_train`, `x_test`: int8 (400, 8, 8, 1) and (499, 8, 8, 1) from the turned sensor;
    `x_clean`: the test images as the sensor saw them before; `y_train`, `y_test`, `y_clean`:
    uint8 digits. Raises ToolError where scikit-learn is missing.
    """
    parts = split()
    (x_train, y_train), (x_test, y_test) = parts.train, parts.test
    return {
        "x_train": quantize(turn_sensor(x_train), INPUT_QUANT),
        "y_train": y_train,
        "x_test": quantize(turn_sensor(x_test), INPUT_QUANT),
        "y_test": y_test,
        "x_clean": quantize(x_test, INPUT_QUANT),
        "y_clean": y_test.copy(),
    }


def split() -> Split:
    """Return all images of the unchanged sensor, shuffled by a fixed seed and cut in three.

    Raises ToolError where scikit-learn is missing.
    """
    images, labels = _digits()
    order = np.random.RandomState(SPLIT_SEED).permutation(len(labels))
    cuts = (BASE_IMAGES, BASE_IMAGES + TRAIN_IMAGES)
    base, train, test = ((images[part], labels[part]) for part in np.split(order, cuts))
    return Split(base, train, test)


def turn_sensor(images: Images) -> Images:
    """Return (N, 8, 8, 1) images as a sensor sees them that is mounted a quarter turn wrong."""
    return np.ascontiguousarray(np.rot90(images, axes=(1, 2)))


def _digits() -> tuple[Images, Labels]:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ToolError(
            "missing-package",
            "demo",
            "the demonstration's images come with scikit-learn, which is not installed",
            hint="pip install 'tinytrain[demo]'",
        ) from error
    pixels, labels = load_digits(return_X_y=True)
    images = np.asarray(pixels, np.float32).reshape(-1, 8, 8, 1) / np.float32(16)
    return images, np.asarray(labels, np.uint8)
