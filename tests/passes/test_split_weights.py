from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.equal_graphs import (
    assert_c_trains_alike,
    assert_same_forward,
    interpreted_training,
)
from tests.support.small_networks import CLASSES, Net
from tinytrain.analysis.verify import verify
from tinytrain.ir import Graph, Role, format_graph
from tinytrain.ops.pointwise_split import can_split
from tinytrain.passes.prune import prune
from tinytrain.passes.split_weights import Exceptions, split_weights, split_where_it_saves
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss, differentiate, parse_scheme

SCHEME = """
bias_last = 1
[[layer]]
index = 1
channels = [0, 1, 4]
[[layer]]
index = 2
channels = [2, 3]
[[layer]]
index = 3
ratio = 0.5
[[layer]]
index = 4
channels = [0, 2, 3, 5]
"""


def _training_graph(folder: Path, batch: int = 1, state: str = "int16") -> Graph:
    """Partly trained: 3x3, 1x1 and depthwise convolutions, and a fully connected layer."""
    net = Net(5)
    y = net.conv(net.image(1, 6, 7, 3), 6)
    y = net.depthwise(net.conv(net.conv(y, 5), 6, (1, 1)))
    y = net.dense(net.dense(net.same(net.b.mean(y), y), 8, activation="RELU"), CLASSES)
    options = TrainOptions(batch=batch, weight_state=state)
    forward = attach_loss(read(net.done(y)), options, {})
    path = folder / "scheme.toml"
    path.write_text(SCHEME)
    return prune(differentiate(forward, parse_scheme(str(path), forward), options, {}))


def test_text_before_and_after(tmp_path: Path) -> None:
    graph = _training_graph(tmp_path)
    before, after = format_graph(graph), format_graph(split_weights(graph))
    assert "conv2d_weights_2:int8[5x3x3x6]@state" in before
    assert "conv2d_weights_2:int8[5x3x3x6]@state" not in after
    merge = (
        "conv2d_weights_2_merged_forward:int8[5x3x3x6] = merge_weights("
        "conv2d_weights_2:int8[5x3x3x6]@const, conv2d_weights_2_trained:int8[5x3x3x3]@state)"
    )
    assert f"  f {merge} {{channels=(0, 1, 4)}}" in after
    assert "conv2d_weights_2_merged_backward" not in after, "no error goes through this layer"
    assert "conv2d_weights_3_merged_backward" in after


@pytest.mark.parametrize("state", ["int8", "int16", "float32"])
def test_the_numbers_stay(tmp_path: Path, state: str) -> None:
    graph = _training_graph(tmp_path, state=state)
    split = split_weights(graph)
    verify(split)
    assert_same_forward(graph, split)
    whole, parts = interpreted_training(graph), interpreted_training(split)
    count = 0
    for name, value in whole.items():
        if name in parts:
            assert np.array_equal(value, parts[name]), name
            continue
        trained = parts[f"{name}_trained"]
        op = next(o for o in split.ops if o.kind == "merge_weights" and o.inputs[0] == name)
        assert np.array_equal(value[..., list(op.ints("channels"))], trained)
        assert split[name].role is Role.CONST
        count += 1
    assert count == 4


@pytest.mark.parametrize("batch", [1, 2])
def test_kernels_train_the_slice(tmp_path: Path, batch: int) -> None:
    assert_c_trains_alike(split_weights(_training_graph(tmp_path, batch)), batch=batch)


def test_whole_tensors_stay_states() -> None:
    net = Net(5)
    y = net.conv(net.image(1, 6, 7, 3), 6)
    options = TrainOptions()
    graph = read(net.done(net.dense(net.same(net.b.mean(y), y), CLASSES)))
    forward = attach_loss(graph, options, {})
    whole = differentiate(forward, parse_scheme("full", forward), options, {})
    assert format_graph(split_weights(whole)) == format_graph(whole)


def _merged(graph: Graph) -> list[str]:
    return [op.outputs[0] for op in split_weights(graph).ops if op.kind == "merge_weights"]


@pytest.mark.parametrize("place", range(6))
def test_weights_that_are_large_at_the_peak(tmp_path: Path, place: int) -> None:
    graph = _training_graph(tmp_path)
    merged = _merged(graph)
    assert len(merged) == 7

    def live_bytes(variant: Graph) -> list[int]:
        """As if the merged weights of one layer were large."""
        large = merged[place]
        return [10_000 if large in (*op.inputs, *op.outputs) else 100 for op in variant.ops]

    found = split_where_it_saves(graph, lambda variant: variant, live_bytes)
    verify(found)
    kinds = [op.kind for op in found.ops]
    pointwise = [op for op in found.ops if op.kind.startswith("pointwise_split")]
    if merged[place].startswith("conv2d_weights_3"):  # the 1x1 convolution
        assert len(pointwise) == 1 and kinds.count("merge_weights") == 6
    elif "depthwise" in merged[place]:
        assert kinds.count("merge_weights") == 7
    else:
        assert not pointwise and kinds.count("merge_weights") < 7
    assert_same_forward(graph, found)
    assert_c_trains_alike(found)


def test_nothing_changes_where_merging_is_free(tmp_path: Path) -> None:
    graph = _training_graph(tmp_path)
    even = split_where_it_saves(graph, lambda variant: variant, lambda v: [100] * len(v.ops))
    assert format_graph(even) == format_graph(split_weights(graph))


@pytest.mark.parametrize("state", ["int8", "float32"])
def test_kernels_that_read_both_parts(tmp_path: Path, state: str) -> None:
    graph = _training_graph(tmp_path, state=state)
    names = [op.name for op in split_weights(graph).ops if can_split(op, split_weights(graph))]
    found = split_weights(graph, Exceptions(apart=frozenset(names)))
    assert sum(op.kind.startswith("pointwise_split") for op in found.ops) >= 2
    assert_same_forward(graph, found)
    assert_c_trains_alike(found)
    merged, apart = interpreted_training(split_weights(graph)), interpreted_training(found)
    assert all(np.array_equal(merged[name], apart[name]) for name in merged)
