"""Training works: every scheme, weight state and loss overfits a handful of samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.small_networks import CLASSES, NETWORKS, Net
from tests.support.tflite_writer import Array
from tinytrain.analysis import verify
from tinytrain.interp import Interpreter, mean_squares
from tinytrain.ir import Graph, Phase, Role
from tinytrain.ops.base import Step
from tinytrain.passes.mask_bits import keep_mask_bits
from tinytrain.passes.prune import prune
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss, differentiate, parse_scheme

Samples = list[tuple[Array, Array | int]]


def samples_of(graph: Graph, options: TrainOptions, count: int = 8) -> Samples:
    rng = np.random.default_rng(11)
    shape, out = graph[graph.inputs[0]].shape, graph[graph.outputs[0]].shape
    found: Samples = []
    for k in range(count):
        x = rng.normal(0, 40, shape).round().clip(-128, 127).astype(np.int8)
        label = k % (options.classes or CLASSES)
        vector = rng.integers(-60, 61, out).astype(np.int8)
        if out[-1] == CLASSES:  # probabilities
            vector = np.where(np.arange(CLASSES) == label, 127, -128).astype(np.int8)
        found.append((x, vector if options.loss == "mse" else label))
    return found


def training_graph(graph: Graph, scheme: str, options: TrainOptions, samples: Samples) -> Graph:
    squares = mean_squares(graph, np.stack([x for x, _ in samples]))
    inference = attach_loss(graph, options, squares)
    chosen = parse_scheme(scheme, inference)
    training = keep_mask_bits(prune(differentiate(inference, chosen, options, squares)))
    verify(training)
    return training


def losses(training: Graph, samples: Samples, options: TrainOptions, *, rate: float,
           epochs: int) -> list[float]:  # fmt: skip
    """Mean loss of each epoch."""
    interpreter = Interpreter(training)
    each = np.float32(rate / options.batch)
    for index, (x, target) in enumerate(samples * 2):
        interpreter.train_step(x, Step(8, index, each, False, target))
    history, index = [], 0
    for _ in range(epochs):
        total = 0.0
        for x, target in samples:
            step = Step(9, index, each, True, target)
            total += float(interpreter.train_step(x, step)["loss"][0])
            index += 1
            if index % options.batch == 0:
                interpreter.apply_batch(step)
        history.append(total / len(samples))
    return history


def assert_learns(name: str, scheme: str, options: TrainOptions, *, rate: float, epochs: int = 14,
                  to: float = 0.6) -> None:  # fmt: skip
    graph = read(NETWORKS[name]())
    samples = samples_of(graph, options)
    training = training_graph(graph, scheme, options, samples)
    history = losses(training, samples, options, rate=rate, epochs=epochs)
    assert np.mean(history[-3:]) < to * history[0], history


@pytest.mark.parametrize("state", ["int8", "int16", "float32"])
@pytest.mark.parametrize("scheme", ["head", "bias:all", "last:2", "full"])
def test_schemes_and_states(scheme: str, state: str) -> None:
    few = scheme in ("head", "bias:all")  # on features of random layers
    options = TrainOptions(weight_state=state, tau=0.1)
    assert_learns(
        "convolutions", scheme, options, rate=0.3 if few else 0.1, to=0.85 if few else 0.6
    )


@pytest.mark.parametrize(
    ("name", "rate"),
    [("depthwise", 0.2), ("residual", 0.05), ("products", 0.05), ("pools", 0.05), ("rows", 0.1),
     ("softmax-values", 10.0)],
)  # fmt: skip
def test_all_networks(name: str, rate: float) -> None:
    loss = "mse" if name in ("rows", "softmax-values") else "cross-entropy"
    assert_learns(name, "full", TrainOptions(loss=loss, tau=0.03), rate=rate, epochs=18, to=0.88)


@pytest.mark.parametrize("batch", [2, 8])
def test_batches(batch: int) -> None:
    options = TrainOptions(batch=batch, tau=0.1)
    assert_learns("convolutions", "full", options, rate=0.3, epochs=20, to=0.8)


@pytest.mark.parametrize("classes", [2, 8])
def test_fresh_classifiers(classes: int) -> None:
    assert_learns("convolutions", "head", TrainOptions(classes=classes), rate=0.3, to=0.8)


def test_label_smoothing_keeps_scores_apart_from_one() -> None:
    plain, smooth = (TrainOptions(label_smoothing=s, tau=0.1) for s in (0.0, 0.5))
    ends = []
    for options in (plain, smooth):
        graph = read(NETWORKS["rows"]())
        samples = samples_of(graph, TrainOptions(classes=20))
        training = training_graph(graph, "full", options, samples)
        ends.append(losses(training, samples, options, rate=0.1, epochs=16)[-1])
    assert ends[0] < 0.3
    assert ends[1] > 0.4  # the loss of the true class is that of a score of about 1/2


def test_quantization_aware_scaling_without_rho() -> None:
    assert_learns(
        "convolutions", "last:2", TrainOptions(normalize=False, tau=0.1), rate=0.2, to=0.75
    )


def test_channel_sets(tmp_path: Path) -> None:
    """Only the chosen input channels move, and they learn."""
    file = tmp_path / "scheme.toml"
    file.write_text("head = false\n[[layer]]\nindex = 3\nchannels = [1, 4]\n[[layer]]\nindex = 4\n"
                    "channels = [0, 6]\n")  # fmt: skip
    graph = read(NETWORKS["convolutions"]())
    for state in ("int8", "int16", "float32"):
        for batch in (1, 4):
            options = TrainOptions(weight_state=state, tau=0.1, batch=batch)
            samples = samples_of(graph, options)
            training = training_graph(graph, str(file), options, samples)
            interpreter = Interpreter(training)
            before = {name: value.copy() for name, value in interpreter.state.items()}
            for index in range(60):
                x, target = samples[index % len(samples)]
                step = Step(9, index, np.float32(0.1), index > 8, target)
                interpreter.train_step(x, step)
                if index % batch == batch - 1:
                    interpreter.apply_batch(step)
            chosen = {"conv2d_weights_4": (1, 4), "head_weights": (0, 6)}
            for name, channels in chosen.items():
                moved = np.any(
                    (interpreter.state[name] != before[name]).reshape(-1, before[name].shape[-1]), 0
                )
                assert tuple(np.flatnonzero(moved)) == channels, (name, state, batch)


def test_nothing_moves_at_rate_zero() -> None:
    graph = read(NETWORKS["residual"]())
    options = TrainOptions(tau=0.0, weight_state="int8")
    samples = samples_of(graph, options)
    training = training_graph(graph, "full", options, samples)
    interpreter = Interpreter(training)
    for index, (x, target) in enumerate(samples):
        interpreter.train_step(x, Step(1, index, np.float32(0.0), True, target))
    for tensor in training.tensors.values():
        if tensor.role is Role.STATE and not tensor.name.endswith(("_range", "_bound")):
            assert np.array_equal(interpreter.state[tensor.name], tensor.data), tensor.name  # type: ignore[arg-type]


def test_dead_channels_stay_finite() -> None:
    """A weight scale near 4e-9, as converters leave it, must neither overflow nor shake others."""
    net = Net(1)
    x = net.image(1, 6, 6, 3)
    scales = np.array([0.01, 4e-9, 0.012, 4e-9], np.float32)
    weights = net.rng.normal(0, 40, (4, 3, 3, 3)).clip(-127, 127).round().astype(np.int8)
    weights[1] = 0
    bias = np.array([10, 2**31 - 1, -20, -(2**31)], np.int32)
    y = net.b.conv2d(x, weights, scales, bias, out_scale=0.06, out_zero_point=-128,
                     activation="RELU")  # fmt: skip
    net.rms[y.index] = 1.0
    graph = read(net.done(net.dense(net.same(net.b.mean(y), y), CLASSES)))
    for state in ("int8", "int16", "float32"):
        options = TrainOptions(weight_state=state, tau=0.03)
        samples = samples_of(graph, options)
        training = training_graph(graph, "full", options, samples)
        history = losses(training, samples, options, rate=0.05, epochs=12)
        assert np.all(np.isfinite(history))
        assert history[-1] < history[0]


def test_single_element_tensors() -> None:
    net = Net(1)
    x = net.image(1, 1, 1, 1)
    y = net.conv(x, 1, (1, 1), activation="NONE")
    graph = read(net.done(net.dense(y, 2)))
    options = TrainOptions(classes=2, tau=0.03)
    samples: Samples = [
        (np.full((1, 1, 1, 1), v, np.int8), int(v > 0)) for v in (-90, -50, 60, 100)
    ]
    training = training_graph(graph, "full", options, samples)
    history = losses(training, samples, options, rate=0.05, epochs=60)
    assert history[-1] < 0.5 * history[0]


def test_the_largest_batch() -> None:
    options = TrainOptions(batch=256, tau=0.03, weight_state="int8")
    graph = read(NETWORKS["softmax-values"]())
    samples = samples_of(graph, options) * 32
    training = training_graph(graph, "full", options, samples[:8])
    assert len(training.phase(Phase.APPLY)) == 4
    history = losses(training, samples, options, rate=1.0, epochs=3)
    assert history[-1] < history[0]
