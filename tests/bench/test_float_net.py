"""The float32 reference in PyTorch against the other one, by autograd, and its step rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.support.float_reference import FloatReference
from tinytrain.bench.float_net import FloatNet, import_torch
from tinytrain.bench.float_train import FloatTrainer
from tinytrain.demo import data as digits
from tinytrain.interp import mean_squares
from tinytrain.ir import Graph
from tinytrain.passes.fold_pad import fold_pad
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss, parse_scheme
from tinytrain.train.layers import layers_of

torch = import_torch()


def graph_of(options: TrainOptions) -> Graph:
    return attach_loss(fold_pad(read(digits.MODEL_PATH)), options, {})


def samples(count: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(1).integers(-128, 128, (count, 8, 8, 1)).astype(np.int8)


def test_outputs_and_gradients_are_those_of_the_other_reference() -> None:
    graph = graph_of(TrainOptions(classes=10))
    net, other = FloatNet(graph), FloatReference(graph)
    x = samples(3)
    parameters = net.parameters()
    for value in parameters.values():
        value.requires_grad_(True)
    known = {graph.inputs[0]: net.input(x)}
    result = net.result(net.run(known, parameters, net.ops))
    reference = other.parameters()
    for i in range(3):
        expected = other.output(reference, x[i]).reshape(-1)
        np.testing.assert_allclose(result[i].detach().numpy(), expected, rtol=1e-3, atol=1e-3)
    loss = torch.nn.functional.cross_entropy(result[:1], torch.tensor([4]))
    loss.backward()
    _, gradients = other.gradients(reference, x[0], 4)
    by_name = {name: op for op in graph.ops for name in op.inputs[1:]}
    for name, value in parameters.items():
        op = by_name[name]
        unit = other.unit(op, name) if name == op.inputs[1] else 1.0
        wanted = gradients[name] * unit
        got = value.grad.numpy()
        assert np.linalg.norm(got - wanted) <= 1e-3 * np.linalg.norm(wanted) + 1e-6, name


def test_a_step_is_bounded_and_only_what_is_chosen_moves(tmp_path: Path) -> None:
    options = TrainOptions(tau=0.001)
    graph = graph_of(options)
    x, y = samples(1), np.array([3])
    squares = mean_squares(read(digits.MODEL_PATH), x)
    trainer = FloatTrainer(graph, parse_scheme("last:1", graph), options, squares)
    before = {name: value.detach().clone() for name, value in trainer._parameters.items()}
    trainer.train(x, y, np.array([1e3], np.float32), np.array([0]))
    trained = {entry.name for entry in trainer._trained}
    for name, value in trainer._parameters.items():
        moved = float((value.detach() - before[name]).norm())
        if name not in trained:
            assert moved == 0.0
        elif value.dim() > 1:
            assert abs(moved / float(before[name].norm()) - 0.001) < 1e-5
        else:
            assert moved > 0.0


def test_a_layer_without_a_bias_learns_one() -> None:
    graph = graph_of(TrainOptions())
    layer = layers_of(graph)[-2].op
    bare = graph.with_ops(
        replace(op, inputs=op.inputs[:2]) if op.name == layer.name else op for op in graph.ops
    )
    trainer = FloatTrainer(bare, parse_scheme("bias:1", bare), TrainOptions(), {})
    trainer.train(samples(1), np.array([3]), np.array([0.01], np.float32), np.array([0]))
    assert float(trainer._parameters[f"{layer.name}_bias"].detach().norm()) > 0
