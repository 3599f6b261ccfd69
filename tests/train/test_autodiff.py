"""What the training graph holds: no error without need, no name twice, no shared state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.small_networks import CLASSES, NETWORKS, Net
from tests.support.tflite_builder import Ref
from tinytrain.analysis import verify
from tinytrain.errors import InputError
from tinytrain.interp import Interpreter
from tinytrain.ir import Graph, Phase, Role
from tinytrain.passes.mask_bits import keep_mask_bits
from tinytrain.passes.prune import prune
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss, differentiate, parse_scheme


def training_graph(graph: Graph, scheme: str, options: TrainOptions | None = None) -> Graph:
    options = options or TrainOptions()
    inference = attach_loss(graph, options, {})
    training = differentiate(inference, parse_scheme(scheme, inference), options, {})
    verify(training)
    return training


def kinds(graph: Graph, *phases: Phase) -> Counter[str]:
    return Counter(op.kind for op in graph.phase(*phases))


def states(graph: Graph) -> set[str]:
    """Trained tensors, without their companions."""
    forward = {name for op in graph.phase(Phase.FORWARD) for name in op.inputs if name}
    return {name for name in forward if graph[name].role is Role.STATE}


def test_head_needs_no_error_of_an_activation() -> None:
    training = training_graph(read(NETWORKS["residual"]()), "head")
    assert kinds(training, Phase.BACKWARD) == {
        "cross_entropy_error": 1, "bias_update": 1, "fully_connected_update": 1,
    }  # fmt: skip
    assert states(training) == {"head_weights", "head_bias"}


def test_errors_end_at_the_earliest_trained_layer() -> None:
    training = training_graph(read(NETWORKS["convolutions"]()), "bias:2")
    found = kinds(training, Phase.BACKWARD)
    assert found["bias_update"] == 3
    assert found["fully_connected_update"] == 1
    # into the head's input, and from the last convolution to the one before it
    assert found["fully_connected_input_error"] == found["conv2d_input_error"] == 1
    assert found["conv2d_update"] == 0


def test_full_trains_everything_but_needs_no_input_error() -> None:
    graph = read(NETWORKS["convolutions"]())
    training = training_graph(graph, "full")
    found = kinds(training, Phase.BACKWARD)
    assert found["conv2d_update"] == 4
    assert found["conv2d_input_error"] == 3
    assert graph.inputs[0] not in {op.outputs[0] for op in training.ops}


def test_errors_of_a_tensor_with_two_consumers_are_added() -> None:
    training = training_graph(read(NETWORKS["residual"]()), "full")
    assert kinds(training, Phase.BACKWARD)["add_errors"] == 3


def test_the_input_error_comes_before_the_update() -> None:
    """It needs the weights of the forward pass."""
    training = training_graph(read(NETWORKS["residual"]()), "full")
    for i, op in enumerate(training.ops):
        if op.kind in ("conv2d_input_error", "fully_connected_input_error"):
            weights = op.inputs[2]
            earlier = [o for o in training.ops[:i] if weights in o.outputs]
            assert not earlier, weights


def test_random_streams_differ() -> None:
    training = training_graph(read(NETWORKS["pools"]()), "full", TrainOptions(batch=2))
    streams = [op.attrs["stream"] for op in training.ops if "stream" in op.attrs]
    assert len(streams) == len(set(streams))


def test_a_missing_bias_is_made() -> None:
    graph = read(NETWORKS["convolutions"]())
    bare = [op for op in graph.ops if op.kind == "conv2d" and len(op.inputs) == 2]
    assert len(bare) == 1
    training = training_graph(graph, "bias:all")
    made = next(op for op in training.ops if op.name == bare[0].name).inputs[2]
    assert training[made].role is Role.STATE
    data = training[made].data
    assert data is not None and not data.any()
    assert "conv2d_update" not in kinds(training)


def test_training_does_not_change_inference() -> None:
    for name, make in NETWORKS.items():
        if name in ("rows", "softmax-values"):
            continue
        graph = read(make())
        inference = attach_loss(graph, TrainOptions(), {})
        training = keep_mask_bits(prune(training_graph(graph, "full")))
        x = np.random.default_rng(0).integers(-128, 128, graph[graph.inputs[0]].shape)
        ours = Interpreter(training).infer(x.astype(np.int8))
        theirs = Interpreter(inference).infer(x.astype(np.int8))
        assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)


def test_none_trains_nothing() -> None:
    graph = read(NETWORKS["residual"]())
    training = training_graph(graph, "none")
    assert not training.phase(Phase.BACKWARD, Phase.APPLY)
    assert all(t.role is not Role.STATE for t in training.tensors.values())


@pytest.mark.parametrize("state", ["int8", "int16", "float32"])
@pytest.mark.parametrize("batch", [1, 2])
def test_companions_of_a_weight(state: str, batch: int) -> None:
    options = TrainOptions(weight_state=state, batch=batch)
    training = training_graph(read(NETWORKS["convolutions"]()), "last:1", options)
    roles = {
        n: (t.role, t.dtype) for n, t in training.tensors.items() if n.startswith("head_weights")
    }
    extra = {"int8": {}, "int16": {"head_weights_fraction": (Role.STATE, "int8")},
             "float32": {"head_weights_master": (Role.STATE, "float32")}}[state]  # fmt: skip
    wanted = {"head_weights": (Role.STATE, "int8"), "head_weights_bound": (Role.STATE, "float32")}
    delta = {"head_weights_delta": (Role.BUFFER, "int32")} if batch > 1 else {}
    assert roles == {**wanted, **extra, **delta}
    assert bool(training.phase(Phase.APPLY)) == (batch > 1)


def test_shared_weights_are_refused() -> None:
    net = Net(1)
    x = net.image(1, 6, 6, 3)
    y = net.conv(x, 3)
    first = net.b._ops[-1]
    again = net.conv(y, 3)
    second = net.b._ops[-1]
    net.b._ops[-1] = replace(second, inputs=(second.inputs[0], first.inputs[1], second.inputs[2]))
    graph = read(net.done(net.dense(net.same(net.b.mean(again), again), CLASSES)))
    with pytest.raises(InputError) as caught:
        training_graph(graph, "full")
    assert caught.value.code == "shared-weights"
    assert caught.value.hint
    training_graph(graph, "head")


TAKEN = ("target", "loss", "loss_error", "loss_error_scale", "head_error", "conv2d_0_folded",
         "conv2d_0_folded_scale", "conv2d_1_error", "conv2d_0_mask", "c_mask")  # fmt: skip


def named_network(names: tuple[str, ...]) -> bytes:
    net = Net(2)
    y: Ref = net.image(1, 6, 6, 3)
    for name in ("c", *names):
        y = net.conv(y, 4, activation="RELU", name=name)
    return net.done(net.dense(net.same(net.b.mean(y), y), CLASSES))


def test_names_of_the_model_are_left_alone() -> None:
    """Whatever a model calls its tensors, training graphs add theirs beside them."""
    graph = read(named_network(TAKEN))
    plain = read(named_network(tuple(f"layer{i}" for i in range(len(TAKEN)))))
    for options in (TrainOptions(), TrainOptions(batch=2, weight_state="float32")):
        odd, usual = (
            keep_mask_bits(prune(training_graph(g, "full", options))) for g in (graph, plain)
        )
        verify(odd)
        assert [op.kind for op in odd.ops] == [op.kind for op in usual.ops]
        assert len(odd.tensors) == len(usual.tensors)
        for name in TAKEN:
            assert odd[name].shape == (1, 6, 6, 4)


def test_channel_sets_keep_only_their_channels(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[[layer]]\nindex = 2\nchannels = [1, 5]\n")
    training = training_graph(read(NETWORKS["convolutions"]()), str(file))
    gathers = [op for op in training.phase(Phase.FORWARD) if op.kind == "gather_channels"]
    assert len(gathers) == 1
    saved = training[gathers[0].outputs[0]]
    assert saved.shape[-1] == 2
    update = next(op for op in training.ops if op.kind == "conv2d_update")
    assert update.inputs[0] == saved.name
    source = gathers[0].inputs[0]
    assert all(op.phase is Phase.FORWARD or op.kind in ("fold_error", "mask_error")
               for op in training.consumers[source])  # fmt: skip
