from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.equal_graphs import assert_c_trains_alike, assert_same_forward
from tests.support.small_networks import CLASSES, Net
from tests.support.tflite_builder import Ref
from tinytrain.ir import Graph, format_graph
from tinytrain.passes.fold_pad import fold_pad
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss, differentiate, parse_scheme


def _pad(net: Net, x: Ref, *pairs: tuple[int, int]) -> Ref:
    return net.same(net.b.pad(x, [(0, 0), *pairs, (0, 0)]), x)


def _kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def _network() -> Graph:
    """A PAD before a strided convolution, one that two layers read, and two in a row."""
    net = Net(11)
    y = _pad(net, net.image(1, 9, 8, 3), (1, 1), (1, 1))
    y = net.conv(y, 6, stride=(2, 2), padding="VALID")
    wide = _pad(net, y, (2, 1), (0, 3))
    y = net.add(
        net.conv(wide, 4, (4, 4), padding="VALID", activation="NONE"),
        net.conv(net.depthwise(wide, 1, (4, 4), padding="VALID"), 4, (1, 1), activation="NONE"),
    )
    y = _pad(net, _pad(net, y, (0, 1), (1, 0)), (2, 0), (0, 2))
    y = net.conv(y, 5, dilation=(2, 2), padding="SAME")
    return read(net.done(net.dense(net.same(net.b.mean(y), y), CLASSES)))


def test_text_before_and_after() -> None:
    net = Net(1)
    y = _pad(net, net.image(1, 8, 8, 3), (0, 1), (2, 1))
    graph = read(net.done(net.conv(y, 4, stride=(2, 2), padding="VALID")))
    before, after = format_graph(graph), format_graph(fold_pad(graph))
    assert "pad(" in before and "padding=VALID" in before
    assert "pad(" not in after
    assert "padding=EXPLICIT, pads=(0, 2, 1, 1), stride=(2, 2)" in after


def test_the_forward_numbers_stay() -> None:
    graph = _network()
    folded = fold_pad(graph)
    assert _kinds(graph).count("pad") == 4
    assert "pad" not in _kinds(folded)
    assert_same_forward(graph, folded)


@pytest.mark.parametrize("scheme", ["full", "last:2"])
def test_kernels_take_the_folded_window(scheme: str) -> None:
    graph = fold_pad(_network())
    options = TrainOptions()
    forward = attach_loss(graph, options, {})
    assert_c_trains_alike(differentiate(forward, parse_scheme(scheme, forward), options, {}))


def test_a_pad_that_others_read_stays_for_them() -> None:
    net = Net(1)
    y = _pad(net, net.image(1, 8, 8, 3), (1, 1), (1, 1))
    net.b.output(net.same(net.b.relu6(y, out_scale=6 / 255, out_zero_point=-128), y))
    graph = read(net.done(net.conv(y, 4, padding="VALID")))
    folded = fold_pad(graph)
    assert _kinds(folded).count("pad") == 1
    assert_same_forward(graph, folded)


def test_other_pads_are_left_alone() -> None:
    net = Net(1)
    x = net.image(1, 8, 8, 3)
    channels = net.same(net.b.pad(x, [(0, 0), (0, 0), (0, 0), (0, 1)]), x)
    graph = read(net.done(net.conv(channels, 4)))
    assert fold_pad(graph).ops == graph.ops
    plain = Net(1)
    border = read(plain.done(plain.conv(_pad(plain, plain.image(1, 8, 8, 3), (1, 1), (1, 1)), 4)))
    pad, *others = border.ops
    other = replace(pad, attrs={**pad.attrs, "value": pad.int("value") + 1})
    changed = border.with_ops([other, *others])
    assert fold_pad(changed).ops == changed.ops
