"""Small training graphs and their plans, for the tests of generated code."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.tflite_builder import Builder
from tinytrain.ir import Graph
from tinytrain.memory import Plan, plan
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss, differentiate, parse_scheme

CLASSES = 5


def tiny_model(seed: int = 3) -> bytes:
    """Convolution, depthwise convolution, fully connected layer: 6x6x3 to five classes."""
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
        return rng.integers(-90, 91, shape).astype(np.int8)

    def bias(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        return rng.integers(-300, 301, count).astype(np.int32)

    b = Builder()
    x = b.input("image", (1, 6, 6, 3), scale=0.02, zero_point=-5)
    y = b.conv2d(
        x, weights(4, 3, 3, 3), [0.01, 0.004, 0.006, 0.008], bias(4), out_scale=0.05,
        out_zero_point=-128, stride=(2, 2), activation="RELU", name="first",
    )  # fmt: skip
    y = b.depthwise_conv2d(
        y, weights(1, 3, 3, 4), [0.01, 0.004, 0.006, 0.008], bias(4), out_scale=0.1,
        out_zero_point=-7, name="second",
    )  # fmt: skip
    y = b.fully_connected(
        y, weights(CLASSES, 36), 0.006, bias(CLASSES), out_scale=0.3, out_zero_point=2, name="last"
    )
    b.output(y)
    return b.build()


def tiny_graph(
    folder: Path, scheme: str = "full", options: TrainOptions | None = None, seed: int = 3
) -> Graph:
    """The training graph of `tiny_model`; scheme "none" gives the graph for inference alone."""
    path = folder / "tiny.tflite"
    path.write_bytes(tiny_model(seed))
    graph = read(path)
    if scheme == "none":
        return graph
    # a few random samples, learned by heart: larger steps than the default allows
    options = options or TrainOptions(tau=0.003)
    graph = attach_loss(graph, options, {})
    return differentiate(graph, parse_scheme(scheme, graph), options, {})


def tiny_plan(
    folder: Path, scheme: str = "full", options: TrainOptions | None = None, seed: int = 3
) -> Plan:
    """The plan of `tiny_graph`."""
    return plan(tiny_graph(folder, scheme, options, seed))
