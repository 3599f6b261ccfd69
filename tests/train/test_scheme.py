"""Schemes: presets, files, and every way to get them wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.small_networks import NETWORKS
from tinytrain.errors import InputError, TinytrainError, UsageError
from tinytrain.ir import Graph
from tinytrain.reader import read
from tinytrain.train import Scheme, SchemeTable, TrainOptions, attach_loss, parse_scheme
from tinytrain.train.layers import layers_of
from tinytrain.train.scheme import Choice


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Layers 0 to 5: depthwise, conv, depthwise, depthwise, conv, head."""
    return attach_loss(read(NETWORKS["depthwise"]()), TrainOptions(), {})


def names(graph: Graph) -> list[str]:
    return [layer.op.name for layer in layers_of(graph)]


def trained(scheme: Scheme, graph: Graph) -> str:
    """One letter a layer: weights and bias, w only, b only, or nothing."""
    letters = []
    for name in names(graph):
        choice = scheme.choices.get(name)
        key = (choice.weights, choice.bias) if choice else (False, False)
        letters.append({(True, True): "+", (True, False): "w", (False, True): "b"}.get(key, "-"))
    return "".join(letters)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("none", "------"),
        ("head", "-----+"),
        ("bias:1", "----b+"),
        ("bias:3", "--bbb+"),
        ("bias:5", "bbbbb+"),
        ("bias:all", "bbbbb+"),
        ("last:1", "----++"),
        ("last:05", "++++++"),
        ("full", "++++++"),
    ],
)
def test_presets(graph: Graph, text: str, wanted: str) -> None:
    scheme = parse_scheme(text, graph)
    assert trained(scheme, graph) == wanted
    assert scheme.name == text


@pytest.mark.parametrize(
    "text",
    [
        "", "heads", "last", "last:", "last:0", "last:-1", "last:1.5", "last:all", "bias:",
        "bias:0", "bias:x", "bias:\N{SUPERSCRIPT TWO}", "last:\N{ARABIC-INDIC DIGIT THREE}",
        "last:" + "9" * 5000, "x" * 5000, "nul\0byte",
    ],
)  # fmt: skip
def test_unknown_presets(graph: Graph, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_scheme(text, graph)
    assert caught.value.code == "unknown-scheme"
    assert "bias:N" in caught.value.hint


@pytest.mark.parametrize("text", ["last:6", "bias:6", "bias:999999999"])
def test_too_long(graph: Graph, text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_scheme(text, graph)
    assert caught.value.code == "scheme-too-long"
    assert "only 5 layers" in str(caught.value)


def test_a_model_of_one_layer() -> None:
    from tests.support.small_networks import Net

    net = Net()
    single = attach_loss(read(net.done(net.dense(net.image(1, 8), 3))), TrainOptions(), {})
    for text in ("head", "full", "bias:all"):
        assert list(parse_scheme(text, single).choices) == ["head"]


def test_a_model_without_layers() -> None:
    from tests.support.small_networks import Net

    net = Net()
    bare = read(net.done(net.b.relu(net.image(1, 8))))
    with pytest.raises(InputError) as caught:
        parse_scheme("head", bare)
    assert caught.value.code == "no-layers"


# ---------------------------------------------------------------------------- files


def from_file(folder: Path, graph: Graph, text: str | bytes) -> Scheme:
    path = folder / "scheme.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return parse_scheme(str(path), graph)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "-----+"),
        ("bias_last = 2", "---bb+"),
        ('bias_last = "all"', "bbbbb+"),
        ("head = false\nbias_last = 1", "----b-"),
        ("[[layer]]\nindex = 0", "w----+"),
        ("[[layer]]\nindex = 0\nbias = true", "+----+"),
        ("[[layer]]\nindex = 0\nweights = false\nbias = true", "b----+"),
        ("bias_last = 5\n[[layer]]\nindex = 1", "b+bbb+"),
        ('[[layer]]\nname = "conv2d"\n[[layer]]\nindex = 4', "-w--w+"),
        ('[[layer]]\nname = "conv2d_weights"', "-w---+"),
        ("head = false\n[[layer]]\nindex = 5", "-----w"),
    ],
)
def test_files(tmp_path: Path, graph: Graph, text: str, wanted: str) -> None:
    scheme = from_file(tmp_path, graph, text)
    assert trained(scheme, graph) == wanted
    assert scheme.name == "scheme.toml"


def test_layers_go_by_operator_name_too(tmp_path: Path, graph: Graph) -> None:
    name = names(graph)[4]
    scheme = from_file(tmp_path, graph, f'[[layer]]\nname = "{name}"')
    assert trained(scheme, graph) == "----w+"


def test_channels(tmp_path: Path, graph: Graph) -> None:
    conv = names(graph)[1]
    scheme = from_file(tmp_path, graph, "[[layer]]\nindex = 1\nchannels = [4, 0, 2]")
    assert scheme.choices[conv] == Choice(conv, True, False, (0, 2, 4))
    # all of them is the same as saying nothing
    scheme = from_file(tmp_path, graph, "[[layer]]\nindex = 1\nchannels = [0, 1, 2, 3, 4, 5]")
    assert scheme.choices[conv].channels == ()


@pytest.mark.parametrize(("ratio", "count"), [("0.01", 1), ("0.5", 3), ("0.75", 4), ("1", 0)])
def test_ratio_takes_the_largest_channels(
    tmp_path: Path, graph: Graph, ratio: str, count: int
) -> None:
    layer = layers_of(graph)[1]
    scheme = from_file(tmp_path, graph, f"[[layer]]\nindex = 1\nratio = {ratio}")
    channels = scheme.choices[layer.op.name].channels
    assert len(channels) == count
    assert channels == tuple(sorted(channels))
    weights = graph[layer.weights].data
    assert weights is not None
    norms = (weights.astype(float) ** 2).sum(axis=(0, 1, 2))
    assert set(channels) == set(np.argsort(-norms, kind="stable")[:count].tolist())


LAYER = "[[layer]]\nindex = 1\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[[", id="not TOML"),
        pytest.param(b"\xff\xfe\x00", id="not UTF-8"),
        pytest.param("x = " + "[" * 5000, id="deep nesting"),
        pytest.param("heads = true", id="unknown key"),
        pytest.param("head = 1", id="head is a number"),
        pytest.param("bias_last = -1", id="negative count"),
        pytest.param("bias_last = 6", id="count too large"),
        pytest.param("bias_last = true", id="count is a flag"),
        pytest.param("bias_last = 1.0", id="count is a float"),
        pytest.param('bias_last = "some"', id="count is a word"),
        pytest.param("layer = 3", id="layer is a number"),
        pytest.param("layer = [3]", id="layer is a list of numbers"),
        pytest.param("[[layer]]", id="layer without index"),
        pytest.param("[[layer]]\nindex = 6", id="index too large"),
        pytest.param("[[layer]]\nindex = -1", id="negative index"),
        pytest.param("[[layer]]\nindex = true", id="index is a flag"),
        pytest.param('[[layer]]\nindex = 1\nname = "conv2d"', id="index and name"),
        pytest.param('[[layer]]\nname = "nothing"', id="unknown name"),
        pytest.param("[[layer]]\nname = 1", id="name is a number"),
        pytest.param(LAYER + "colour = 1", id="unknown layer key"),
        pytest.param(LAYER + 'weights = "yes"', id="weights is a word"),
        pytest.param(LAYER + "bias = 1", id="bias is a number"),
        pytest.param(LAYER + "channels = []", id="no channels"),
        pytest.param(LAYER + "channels = 3", id="channels is a number"),
        pytest.param(LAYER + "channels = [0, 0]", id="channel twice"),
        pytest.param(LAYER + "channels = [6]", id="channel too large"),
        pytest.param(LAYER + "channels = [-1]", id="negative channel"),
        pytest.param(LAYER + "channels = [true]", id="channel is a flag"),
        pytest.param(LAYER + "channels = [1]\nratio = 0.5", id="channels and ratio"),
        pytest.param(LAYER + "channels = [1]\nweights = false", id="channels without weights"),
        pytest.param(LAYER + "ratio = 0", id="ratio 0"),
        pytest.param(LAYER + "ratio = 1.01", id="ratio above 1"),
        pytest.param(LAYER + "ratio = nan", id="ratio is not a number"),
        pytest.param(LAYER + "ratio = true", id="ratio is a flag"),
        pytest.param("[[layer]]\nindex = 0\nchannels = [0]", id="channels of a depthwise layer"),
        pytest.param("[[layer]]\nindex = 0\nratio = 0.5", id="ratio of a depthwise layer"),
        pytest.param("head = false", id="nothing is trained"),
        pytest.param(
            "head = false\n[[layer]]\nindex = 1\nweights = false", id="nothing of a layer"
        ),
    ],
)
def test_bad_files(tmp_path: Path, graph: Graph, text: str | bytes) -> None:
    with pytest.raises(InputError) as caught:
        from_file(tmp_path, graph, text)
    assert caught.value.code == "bad-scheme"
    assert "scheme.toml" in caught.value.where


def test_missing_files(tmp_path: Path, graph: Graph) -> None:
    for path in (tmp_path / "absent.toml", tmp_path / "folder.toml"):
        if path.name.startswith("folder"):
            path.mkdir()
        with pytest.raises(InputError) as caught:
            parse_scheme(str(path), graph)
        assert caught.value.code == "scheme-unreadable"


# ---------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "hinge"}, {"weight_state": "int4"}, {"rounding": "up"}, {"batch": 0},
        {"classes": 1}, {"classes": 5000}, {"batch": 257},
        {"tau": -0.1}, {"tau": float("nan")}, {"tau": float("inf")},
        {"label_smoothing": 1.0}, {"label_smoothing": -0.1}, {"label_smoothing": float("nan")},
        {"classes": 3, "loss": "mse"},
    ],
)  # fmt: skip
def test_bad_options(options: dict[str, object]) -> None:
    with pytest.raises(TinytrainError) as caught:
        TrainOptions(**options)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2


def test_what_a_file_holds_needs_no_file(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("bias_last = 1\n[[layer]]\nindex = 1\nratio = 0.5\n")
    table = {"bias_last": 1, "layer": [{"index": 1, "ratio": 0.5}]}
    found = parse_scheme(SchemeTable("some.toml", table), graph)
    assert found == parse_scheme(str(path), graph)
    with pytest.raises(InputError, match="unknown keys") as caught:
        parse_scheme(SchemeTable("mine", {"layers": []}), graph)
    assert caught.value.where == "mine"
