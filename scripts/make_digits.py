"""Train and quantize the demonstration's model: writes `tinytrain/demo/digits.tflite`.

Needs NumPy, scikit-learn (and threadpoolctl, which comes with it), flatbuffers and the schema
package `tflite`; no deep learning framework. Takes about ten seconds:

    python scripts/make_digits.py

Float training on the base half of the images, then post-training quantization: symmetric weights
with one scale an output channel, activation ranges from the base half. Two runs on one machine
give the same bytes; another BLAS may round a sum differently and give another, equally good model.
One BLAS thread is used, since their number also decides the order of a sum.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.float_net import Adam, Array, Conv, Dense, Layer, Pool, backward, forward  # noqa: E402
from tests.support import referee  # noqa: E402
from tests.support.tflite_builder import Builder, Ref  # noqa: E402
from tinytrain.demo import data  # noqa: E402

SEED = 1
EPOCHS = 40
BATCH = 32
RATE = 3e-3

Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Range:
    """Quantization of an activation tensor."""

    scale: float
    zero_point: int


def make_layers(rng: np.random.Generator) -> list[Layer]:
    """Return the untrained network: 8,770 parameters, 0.16 million multiply-adds an image."""
    return [
        Conv(rng, 3, 1, 16),
        Conv(rng, 3, 16, 16, depthwise=True),
        Conv(rng, 1, 16, 32),
        Pool("max"),
        Conv(rng, 3, 32, 24),
        Pool("average"),
        Dense(rng, 96, 10),
    ]


def train(layers: Sequence[Layer], x: Array, y: Ints, rng: np.random.Generator) -> None:
    """Train in place with Adam, a cosine rate and shifts by up to one pixel."""
    optimizer = Adam(layers)
    total = EPOCHS * (len(x) // BATCH)
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        shifted = shift(x, rng)
        for start in range(0, len(x) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            backward(layers, forward(layers, shifted[rows])[-1], y[rows].astype(np.int64))
            optimizer.step(RATE * 0.5 * (1 + np.cos(np.pi * optimizer.steps / total)))


def shift(x: Array, rng: np.random.Generator) -> Array:
    """Move each image by -1, 0 or 1 pixel both ways; what comes in is dark."""
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    moves = rng.integers(0, 3, (len(x), 2))
    return np.stack([w[i : i + 8, j : j + 8] for w, (i, j) in zip(wide, moves, strict=True)])


def calibrate(layers: Sequence[Layer], x: Array) -> list[Range]:
    """Return the quantization of every layer's output over the images `x`.

    Pools keep their input's, as TFLite's int8 kernels demand.
    """
    ranges: list[Range] = []
    for layer, out in zip(layers, forward(layers, x), strict=True):
        if isinstance(layer, Pool):
            ranges.append(ranges[-1])
            continue
        low, high = min(float(out.min()), 0.0), float(out.max())
        scale = (high - low) / 255
        ranges.append(Range(scale, round(-128 - low / scale)))
    return ranges


def quantize_weights(weights: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """Return int8 weights and their scales; output channels are the last axis."""
    peak = np.abs(weights).reshape(-1, weights.shape[-1]).max(0)
    scales = (np.maximum(peak, 1e-6) / 127).astype(np.float32)
    return np.clip(np.rint(weights / scales), -127, 127).astype(np.int8), scales


def write(layers: Sequence[Layer], ranges: Sequence[Range]) -> bytes:
    """Return the int8 model as a `.tflite` file."""
    b = Builder()
    quant = data.INPUT_QUANT
    x = b.input("image", (1, 8, 8, 1), scale=quant.scale0, zero_point=quant.zero_point)
    for layer, out in zip(layers, ranges, strict=True):
        x = append(b, x, layer, out)
    b.output(x)
    return b.build("Handwritten digits 0-9, 8x8 pixels, int8; made by scripts/make_digits.py")


def append(b: Builder, x: Ref, layer: Layer, out: Range) -> Ref:
    """Append one layer in TFLite's weight layout."""
    if isinstance(layer, Pool):
        pool = b.max_pool2d if layer.kind == "max" else b.average_pool2d
        return pool(x, size=(2, 2))
    assert isinstance(layer, (Conv, Dense))
    weights, scales = quantize_weights(layer.weights)
    limit = np.iinfo(np.int32)
    bias = np.rint(layer.bias / (np.float64(x.scale) * scales))
    bias32 = np.clip(bias, limit.min, limit.max).astype(np.int32)
    to: dict[str, Any] = {"out_scale": out.scale, "out_zero_point": out.zero_point}
    if isinstance(layer, Dense):
        x = b.reshape(x, (1, weights.shape[0]))
        return b.fully_connected(x, weights.T, scales, bias32, name="logits", **to)
    if layer.depthwise:
        weights = weights.transpose(2, 0, 1, 3)
        return b.depthwise_conv2d(x, weights, scales, bias32, activation="RELU", **to)
    weights = weights.transpose(3, 0, 1, 2)
    return b.conv2d(x, weights, scales, bias32, activation="RELU", **to)


def report(layers: Sequence[Layer], model: bytes) -> None:
    """Print the accuracy of the float network and, where an interpreter is installed, of int8."""
    sets = data.load()
    images = data.split().test[0]
    turned = forward(layers, data.turn_sensor(images))[-1].argmax(1)
    clean = forward(layers, images)[-1].argmax(1)
    print(f"float  clean {np.mean(clean == sets['y_clean']):.4f}", end="  ")
    print(f"turned sensor {np.mean(turned == sets['y_test']):.4f}")
    for name in referee.available():
        judge = referee.Referee(name, model)
        scores = [
            np.mean(judge.classify(sets[f"x_{part}"]) == sets[f"y_{part}"])
            for part in ("clean", "test")
        ]
        print(f"int8   clean {scores[0]:.4f}  turned sensor {scores[1]:.4f}  ({name})")


def main() -> None:
    """Make the model and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=data.MODEL_PATH)
    target: Path = parser.parse_args().output
    rng = np.random.default_rng(SEED)
    layers = make_layers(rng)
    images, labels = data.split().base
    with threadpool_limits(limits=1):
        train(layers, images, labels, rng)
        model = write(layers, calibrate(layers, images))
    target.write_bytes(model)
    print(f"{target}: {len(model)} bytes")
    report(layers, model)


if __name__ == "__main__":
    main()
