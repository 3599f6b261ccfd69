"""The end of the network: classifiers kept and replaced, and what cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.small_networks import CLASSES, NETWORKS, Net
from tests.support.tflite_writer import Array
from tinytrain.errors import InputError, UsageError
from tinytrain.interp import Interpreter, mean_squares
from tinytrain.ir import Graph
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss


def dense_end(*, softmax: bool = False, beta: float = 1.0, reshape: bool = False,
              activation: str = "NONE", per_channel: bool = False) -> Graph:  # fmt: skip
    net = Net(8)
    y = net.conv(net.image(1, 6, 6, 3), 7)
    y = net.same(net.b.mean(y), y)
    y = net.dense(y, CLASSES, activation=activation, per_channel=per_channel)
    if reshape:
        y = net.b.reshape(y, (1, 1, CLASSES))
    if softmax:
        y = net.b.softmax(y, beta=beta)
    return read(net.done(y))


def convolution_end(size: int = 1, kernel: tuple[int, int] = (1, 1)) -> Graph:
    """As in the MCUNet family: a 1x1 convolution over one position, then RESHAPE."""
    net = Net(9)
    y = net.conv(net.image(1, size, size, 6), 7, (1, 1))
    y = net.conv(y, CLASSES, kernel, activation="NONE", padding="VALID")
    return read(net.done(net.b.reshape(y, (1, -1))))


def scores(graph: Graph, x: Array) -> Array:
    return Interpreter(graph).infer(x)["scores"]


def inputs(graph: Graph, count: int = 4) -> list[Array]:
    rng = np.random.default_rng(1)
    shape = graph[graph.inputs[0]].shape
    return [rng.integers(-128, 128, shape).astype(np.int8) for _ in range(count)]


def softmax_of(logits: Array) -> Array:
    powers: Array = np.exp(logits - logits.max())
    total: Array = powers / powers.sum()
    return total


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("reshape", [False, True])
@pytest.mark.parametrize("softmax", [False, True])
def test_kept_classifier_gives_the_models_logits(
    softmax: bool, reshape: bool, per_channel: bool
) -> None:
    graph = dense_end(softmax=softmax, reshape=reshape, per_channel=per_channel)
    inference = attach_loss(graph, TrainOptions(), {})
    assert [op.kind for op in inference.ops] == ["conv2d", "mean", "logits", "class_scores"]
    plain = dense_end(per_channel=per_channel)
    for x in inputs(graph):
        own = Interpreter(plain).infer(x)[plain.outputs[0]]
        quant = plain[plain.outputs[0]].q
        real = (own.reshape(-1).astype(float) - quant.zero_point) * quant.scale0
        # int8 logits are rounded, int32 ones are not
        assert scores(inference, x) == pytest.approx(softmax_of(real), abs=quant.scale0)


def test_beta_sharpens_the_scores() -> None:
    plain = attach_loss(dense_end(softmax=True), TrainOptions(), {})
    sharp = attach_loss(dense_end(softmax=True, beta=3.0), TrainOptions(), {})
    for x in inputs(plain):
        p = scores(plain, x).astype(float)
        assert scores(sharp, x) == pytest.approx(p**3 / np.sum(p**3), abs=1e-4)


def test_convolution_as_classifier() -> None:
    graph = convolution_end()
    inference = attach_loss(graph, TrainOptions(), {})
    assert [op.kind for op in inference.ops] == ["conv2d", "logits", "class_scores"]
    for x in inputs(graph):
        own = Interpreter(graph).infer(x)[graph.outputs[0]]
        quant = graph[graph.outputs[0]].q
        real = (own.reshape(-1).astype(float) - quant.zero_point) * quant.scale0
        assert scores(inference, x) == pytest.approx(softmax_of(real), abs=quant.scale0)


@pytest.mark.parametrize("classes", [2, 3, 100])
@pytest.mark.parametrize("make", [dense_end, convolution_end, lambda: dense_end(softmax=True)])
def test_fresh_classifier(make: object, classes: int) -> None:
    graph = make()  # type: ignore[operator]
    squares = mean_squares(graph, np.stack(inputs(graph)))
    fresh = attach_loss(graph, TrainOptions(classes=classes), squares)
    head = next(op for op in fresh.ops if op.kind == "logits")
    weights, bias = (fresh[name] for name in head.inputs[1:])
    assert weights.shape == (classes, 7)
    assert weights.data is not None and bias.data is not None
    assert 0 < np.abs(weights.data.astype(int)).max() < 20
    assert not bias.data.any()
    assert fresh[fresh.outputs[0]].shape == (classes,)
    for x in inputs(graph):
        p = scores(fresh, x)
        assert p.sum() == pytest.approx(1, abs=1e-5)
        assert p.max() < min(0.95, 8 / classes)  # it knows nothing yet
    again = attach_loss(graph, TrainOptions(classes=classes), squares)
    other = attach_loss(graph, TrainOptions(classes=classes, seed=1), squares)
    assert np.array_equal(again[weights.name].data, weights.data)  # type: ignore[arg-type]
    assert not np.array_equal(other[weights.name].data, weights.data)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(lambda: dense_end(activation="RELU"), id="fused activation"),
        pytest.param(lambda: convolution_end(3, (3, 3)), id="larger kernel"),
        pytest.param(lambda: pooled_end(), id="ends in a pool"),
    ],
)
def test_nothing_to_replace(graph: object) -> None:
    with pytest.raises(InputError) as caught:
        attach_loss(graph(), TrainOptions(classes=3), {})  # type: ignore[operator]
    assert caught.value.code == "no-classifier"
    assert caught.value.hint


def pooled_end() -> Graph:
    """Class maps pooled at the end: trainable as it is."""
    net = Net(3)
    y = net.conv(net.image(1, 6, 6, 3), CLASSES, activation="NONE")
    y = net.same(net.b.average_pool2d(y, size=(6, 6)), y)
    return read(net.done(net.b.softmax(net.b.reshape(y, (1, -1)))))


def test_a_pooled_end_keeps_its_int8_logits() -> None:
    graph = pooled_end()
    inference = attach_loss(graph, TrainOptions(), {})
    assert inference.ops[-1].kind == "class_scores"
    logits = inference[inference.ops[-1].inputs[0]]
    assert logits.dtype == "int8"
    for x in inputs(graph):
        values = Interpreter(inference).infer(x)
        real = values[logits.name].reshape(-1).astype(float) - logits.q.zero_point
        assert values["scores"] == pytest.approx(softmax_of(real * logits.q.scale0), abs=1e-5)


def test_several_rows_of_logits() -> None:
    net = Net(4)
    y = net.dense(net.image(1, 4, 10), CLASSES, depth=10, keep_num_dims=True)
    graph = read(net.done(net.b.softmax(y)))
    with pytest.raises(InputError) as caught:
        attach_loss(graph, TrainOptions(), {})
    assert caught.value.code == "several-rows"
    assert attach_loss(graph, TrainOptions(loss="mse"), {}) is graph


def test_one_class_has_nothing_to_learn() -> None:
    net = Net(8)
    graph = read(net.done(net.dense(net.image(1, 2, 2, 3), 1, activation="NONE")))
    with pytest.raises(InputError, match="one class") as caught:
        attach_loss(graph, TrainOptions(), {})
    assert caught.value.code == "one-class"
    assert attach_loss(graph, TrainOptions(loss="mse"), {}).outputs == graph.outputs
    assert attach_loss(graph, TrainOptions(classes=3), {})["scores"].size == 3


@pytest.mark.parametrize("end", ["logit", "logistic", "reshape"])
def test_one_logit_is_that_of_the_second_class(end: str) -> None:
    net = Net(8)
    y = net.dense(net.image(1, 2, 2, 3), 1, activation="NONE")
    y = y if end == "logit" else net.b.logistic(y)
    graph = read(net.done(net.b.reshape(y, (1, 1, 1)) if end == "reshape" else y))
    made = attach_loss(graph, TrainOptions(loss="binary-cross-entropy"), {})
    assert [op.kind for op in made.ops][-2:] == ["logits", "class_scores"]
    assert "logistic" not in {op.kind for op in made.ops}
    head = made.ops[-2]
    unit = made[head.inputs[0]].q.scale0 * made[head.inputs[1]].q.scale0
    for x in inputs(graph):
        values = Interpreter(made).infer(x)
        p = 1 / (1 + np.exp(-float(values["logits"].reshape(-1)[0]) * unit))
        assert values["scores"] == pytest.approx([1 - p, p], abs=1e-5)


def test_binary_cross_entropy_wants_one_logit() -> None:
    options = TrainOptions(loss="binary-cross-entropy")
    with pytest.raises(InputError, match=f"this one has {CLASSES}") as caught:
        attach_loss(dense_end(), options, {})
    assert caught.value.code == "several-logits"
    made = attach_loss(dense_end(), TrainOptions(2, "binary-cross-entropy"), {})
    assert made["scores"].size == 2
    assert made["logits"].size == 1
    with pytest.raises(UsageError, match="number of classes 3"):
        TrainOptions(3, "binary-cross-entropy")


def test_cross_entropy_does_not_skip_a_logistic() -> None:
    net = Net(8)
    y = net.b.logistic(net.dense(net.image(1, 2, 2, 3), CLASSES, activation="NONE"))
    made = attach_loss(read(net.done(y)), TrainOptions(), {})
    assert [op.kind for op in made.ops][-2:] == ["logistic", "class_scores"]


def test_several_outputs() -> None:
    net = Net(5)
    y = net.conv(net.image(1, 6, 6, 3), 4)
    net.b.output(y)
    graph = read(net.done(net.dense(net.same(net.b.mean(y), y), 3)))
    with pytest.raises(InputError) as caught:
        attach_loss(graph, TrainOptions(), {})
    assert caught.value.code == "several-outputs"


def test_taken_names_are_not_replaced() -> None:
    """A model may call its own tensors what the head is called."""
    net = Net(6)
    x = net.image(1, 6, 6, 3)
    y = net.conv(x, 6, name="logits")
    y = net.conv(y, 6, name="scores")
    y = net.conv(y, 6, name="head")
    graph = read(net.done(net.dense(net.same(net.b.mean(y), y), CLASSES)))
    inference = attach_loss(graph, TrainOptions(), {})
    assert len(inference.ops) == len(graph.ops) + 1
    for name in ("logits", "scores", "head"):
        assert inference[name] is graph[name]
    for sample in inputs(graph):
        ours, theirs = Interpreter(inference).infer(sample), Interpreter(graph).infer(sample)
        for op in graph.ops[:-1]:
            assert np.array_equal(ours[op.outputs[0]], theirs[op.outputs[0]])


def test_every_small_classifier_has_scores() -> None:
    for name, make in NETWORKS.items():
        if name in ("rows", "softmax-values"):
            continue
        inference = attach_loss(read(make()), TrainOptions(), {})
        assert inference[inference.outputs[0]].shape == (CLASSES,)


def test_a_scalar_is_no_row_of_logits() -> None:
    net = Net(8)
    y = net.dense(net.image(1, 5), CLASSES)
    y = net.b.mean(y, axis=(0, 1), keep_dims=False)
    with pytest.raises(InputError, match="one row of logits"):
        attach_loss(read(net.done(y)), TrainOptions(), {})


def test_a_branch_that_nobody_reads_is_not_trained() -> None:
    net = Net(8)
    x = net.image(1, 5)
    y = net.dense(x, 4)
    net.dense(x, 3)
    graph = attach_loss(read(net.done(y)), TrainOptions(loss="mse"), {})
    assert [op.outputs for op in graph.ops] == [graph.outputs]
