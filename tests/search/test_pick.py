"""Picks as scheme files, and what may be picked."""

from __future__ import annotations

from pathlib import Path

from tinytrain.demo.data import MODEL_PATH
from tinytrain.ir import Graph
from tinytrain.reader import read
from tinytrain.search.pick import Pick, bias_counts, options_of, presets_of, spread
from tinytrain.train import TrainOptions, attach_loss, parse_scheme
from tinytrain.train.layers import layers_of


def forward() -> Graph:
    return attach_loss(read(MODEL_PATH), TrainOptions(), {})


def test_presets_as_picks_are_the_presets(tmp_path: Path) -> None:
    graph = forward()
    layers = len(layers_of(graph)) - 1
    presets = presets_of(layers)
    assert {"head", "bias:1", "bias:all", "last:1", "full"} <= set(presets)
    for name, pick in presets.items():
        path = tmp_path / "scheme.toml"
        path.write_text(pick.toml("found\nby a test"))
        assert parse_scheme(str(path), graph).choices == parse_scheme(name, graph).choices, name


def test_a_ratio_trains_that_share_of_the_channels(tmp_path: Path) -> None:
    graph = forward()
    layer = layers_of(graph)[-2]
    path = tmp_path / "scheme.toml"
    path.write_text(Pick(1).with_weights(layer.index, 0.5).toml())
    choice = parse_scheme(str(path), graph).choices[layer.op.name]
    assert choice.bias and len(choice.channels) == graph[layer.weights].shape[-1] // 2


def test_options_make_a_difference_each() -> None:
    graph = forward()
    found = options_of(graph)
    assert set(found) == {layer.index for layer in layers_of(graph) if not layer.is_head}
    assert found[0] == (1.0,)  # one input channel
    for index, ratios in found.items():
        channels = graph[layers_of(graph)[index].weights].shape[-1]
        counts = [max(1, round(channels * ratio)) for ratio in ratios]
        assert len(set(counts)) == len(counts) and counts[-1] == channels


def test_weights_of_a_layer_are_taken_once() -> None:
    pick = Pick(2).with_weights(3, 0.5).with_weights(1, 1.0).with_weights(3, 0.25)
    assert pick.weights == ((1, 1.0), (3, 0.25))
    assert str(pick) == "bias:2 w1 w3:0.25" and str(Pick()) == "head"


def test_bias_counts_double_up_to_all() -> None:
    assert bias_counts(9) == (1, 2, 4, 8, 9)
    assert bias_counts(1) == (1,) and bias_counts(0) == ()


def test_spread_keeps_both_ends() -> None:
    assert spread(list("abcdefg"), 3) == ["a", "d", "g"]
    assert spread(["a", "b"], 3) == ["a", "b"]
    assert spread(["a", "b"], 1) == ["b"] and spread([], 2) == []
