"""Integer gradients against the same network in float, tensor by tensor.

What int8 allows, as measured here (single draws and the average of 16 draws of the stochastic
rounding, each against float gradients at the integer network's own activations):

- direction: cosine at least 0.98 for one draw and 0.998 for the average in networks of up to ten
  layers; in the zoo at least 0.97 and 0.997 in the layer farthest from the loss, 0.999 near it;
- size: within 5 %, mostly within 1 %: a sample whose errors are larger than those that set the
  ranges is cut a little in each layer.

Sizes are compared by projection, <integer, float> / <float, float>: noise makes a norm larger, but
leaves the projection where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.support.float_reference import FloatReference
from tests.support.integer_gradients import GradientProbe
from tests.support.small_networks import CLASSES, NETWORKS
from tests.support.tflite_writer import Array
from tinytrain.ir import Graph
from tinytrain.passes.mask_bits import keep_mask_bits
from tinytrain.passes.prune import prune
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss, differentiate, parse_scheme

DRAWS = 16
Target = Array | int


@dataclass(frozen=True)
class Agreement:
    """Means over samples, for one weight or bias tensor."""

    single: float  # cosine of one draw
    average: float  # cosine of the average draw
    size: float  # projection of the average draw
    float_only: float  # cosine between the straight-through and the plain float gradient

    def __str__(self) -> str:
        return f"cosine {self.single:.4f} / {self.average:.4f}, size {self.size:.4f}"


def cosine(a: Array, b: Array) -> float:
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.sum(a * b)) / norms if norms else 0.0


def training_graph(graph: Graph, scheme: str, loss: str) -> Graph:
    """With rho = 1, so that a step at rate 1 is the gradient."""
    options = TrainOptions(loss=loss, normalize=False, weight_state="int8")
    inference = attach_loss(graph, options, {})
    chosen = parse_scheme(scheme, inference)
    return keep_mask_bits(prune(differentiate(inference, chosen, options, {})))


def compare(
    graph: Graph, calibration: Sequence[tuple[Array, Target]],
    samples: Sequence[tuple[Array, Target]], *, steps: int = 64,
) -> dict[str, Agreement]:  # fmt: skip
    """Agreement of every trained tensor, over `samples`."""
    probe, reference = GradientProbe(graph), FloatReference(graph)
    probe.calibrate([x for x, _ in calibration], [t for _, t in calibration], steps)
    parameters = reference.parameters()
    rows: dict[str, list[tuple[float, float, float, float]]] = {}
    for x, target in samples:
        draws = [probe.draw(x, target, seed) for seed in range(DRAWS)]
        names = frozenset(draws[0])
        loss, exact = reference.gradients(
            parameters, x, target, integers=probe.tensors, trained=names
        )
        assert loss == pytest.approx(float(probe.tensors["loss"][0]), rel=1e-4, abs=1e-5)
        _, plain = reference.gradients(parameters, x, target, trained=names)
        for name in names:
            true = exact[name]
            if not np.any(true):
                continue
            each = [draw[name] for draw in draws]
            mean = np.mean(each, axis=0)
            rows.setdefault(name, []).append(
                (
                    float(np.mean([cosine(one, true) for one in each])),
                    cosine(mean, true),
                    float(np.sum(mean * true) / np.sum(true * true)),
                    cosine(true, plain[name]),
                )
            )
    return {name: Agreement(*np.mean(values, axis=0)) for name, values in rows.items()}


def check(
    found: dict[str, Agreement], *, single: float, average: float, size: tuple[float, float]
) -> None:
    assert found
    wrong = [
        f"{name}: {a}"
        for name, a in found.items()
        if a.single < single or a.average < average or not size[0] < a.size < size[1]
    ]
    assert not wrong, "\n".join(wrong)


def random_samples(graph: Graph, loss: str, count: int) -> list[tuple[Array, Target]]:
    rng = np.random.default_rng(5)
    x, out = graph[graph.inputs[0]], graph[graph.outputs[0]]
    samples: list[tuple[Array, Target]] = []
    for k in range(count):
        values = rng.normal(x.q.zero_point, 32, x.shape).round().clip(-128, 127).astype(np.int8)
        vector = rng.integers(-100, 101, out.shape).astype(np.int8)
        samples.append((values, vector if loss == "mse" else k % CLASSES))
    return samples


def loss_of(name: str) -> str:
    return "mse" if name in ("rows", "softmax-values") else "cross-entropy"


@pytest.mark.parametrize("name", NETWORKS)
def test_small_networks(name: str) -> None:
    graph = read(NETWORKS[name]())
    samples = random_samples(graph, loss_of(name), 4)
    training = training_graph(graph, "full", loss_of(name))
    found = compare(training, samples, samples)
    layers = [op for op in training.ops if op.kind.endswith("_update")]
    assert len(found) >= len(layers)
    check(found, single=0.98, average=0.998, size=(0.95, 1.02))


def test_straight_through_is_close_to_plain_float() -> None:
    """The straight-through reference does not hide a wrong forward pass."""
    graph = read(NETWORKS["residual"]())
    samples = random_samples(graph, "cross-entropy", 3)
    training = training_graph(graph, "full", "cross-entropy")
    found = compare(training, samples, samples)
    assert min(a.float_only for a in found.values()) > 0.95


# ---------------------------------------------------------------------------- real models


@dataclass(frozen=True)
class Case:
    """A model of the zoo: its task (None: random inputs), scheme, loss, and the bounds for one
    draw, the average, and the average's size."""

    task: str | None
    scheme: str
    loss: str
    single: float
    average: float
    size: tuple[float, float]


ZOO = {
    "mlperf_pretrainedResnet_quant": Case(
        "resnet8_blur", "full", "cross-entropy", 0.98, 0.998, (0.97, 1.02)
    ),
    "mlperf_kws_ref_model": Case(
        "kws_commands_test", "full", "cross-entropy", 0.97, 0.997, (0.97, 1.02)
    ),
    "mlperf_ad01_int8": Case(None, "full", "mse", 0.97, 0.997, (0.97, 1.02)),
    "har_cnn_int8": Case("har_user23_rotated", "full", "cross-entropy", 0.99, 0.998, (0.97, 1.02)),
    # 27 layers deep: rounding noise adds up, and errors cut in some samples (a range is that of
    # earlier ones) shorten the gradients of early layers by up to 15 %
    "mlperf_vww_96_int8": Case(
        "vww_coco_test", "bias:all", "cross-entropy", 0.7, 0.96, (0.8, 1.05)
    ),
    "mcunet-5fps": Case("mcunet_signs", "last:5", "cross-entropy", 0.98, 0.998, (0.97, 1.02)),
}


def zoo_samples(
    zoo: Path, graph: Graph, task: str | None, count: int
) -> list[tuple[Array, Target]]:
    if task is None:
        return [(x, x) for x, _ in random_samples(graph, "mse", count)]
    shape = graph[graph.inputs[0]].shape
    with np.load(zoo / "tasks" / f"{task}.npz") as data:
        part = "train" if "x_train" in data else "test"
        order = np.random.default_rng(0).permutation(len(data[f"y_{part}"]))[:count]
        x, y = data[f"x_{part}"][order], data[f"y_{part}"][order]
    return [(sample.reshape(shape), int(label)) for sample, label in zip(x, y, strict=True)]


@pytest.mark.zoo
@pytest.mark.parametrize("name", ZOO)
def test_real_models(zoo: Path, name: str) -> None:
    case = ZOO[name]
    graph = read(zoo / "models" / f"{name}.tflite")
    samples = zoo_samples(zoo, graph, case.task, 40)
    training = training_graph(graph, case.scheme, case.loss)
    found = compare(training, samples, samples[:2], steps=len(samples))
    check(found, single=case.single, average=case.average, size=case.size)
