from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.ckernel import Case, assert_kernels
from tests.support.conformance import forward_cases, run_graph
from tests.support.equal_graphs import assert_c_trains_alike, assert_same_forward
from tests.support.small_networks import CLASSES, NETWORKS, Net
from tests.support.tflite_builder import Ref
from tinytrain import pipeline
from tinytrain.ir import Graph, format_graph
from tinytrain.memory import plan
from tinytrain.memory.profile import LiveProfile
from tinytrain.ops.row_chain import row_plan
from tinytrain.passes.chain_rows import chain_rows
from tinytrain.passes.fold_pad import fold_pad
from tinytrain.passes.prune import prune
from tinytrain.pipeline import Training, prepare_graph
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss, differentiate, parse_scheme


def _block(net: Net, x: Ref, wide: int, narrow: int, size: int, stride: int) -> Ref:
    """Expand, depthwise, project."""
    y = net.conv(x, wide, (1, 1), activation="RELU6")
    y = net.depthwise(y, 1, (size, size), stride=(stride, stride))
    return net.conv(y, narrow, (1, 1), activation="NONE")


def _mobile() -> bytes:
    """A strided stem and inverted bottlenecks, with PAD, a residual sum and a large kernel."""
    net = Net(21)
    y = net.conv(net.image(1, 24, 20, 3), 8, stride=(2, 2), activation="RELU6")
    y = _block(net, y, 16, 6, 3, 1)
    y = net.add(y, _block(net, y, 18, 6, 3, 1))
    y = net.same(net.b.pad(y, [(0, 0), (1, 2), (2, 1), (0, 0)]), y)
    y = _block(net, y, 12, 6, 5, 2)
    return net.done(net.dense(net.same(net.b.mean(y), y), CLASSES))


def _forward(model: bytes) -> Graph:
    return attach_loss(fold_pad(read(model)), TrainOptions(), {})


def _chained(graph: Graph, slack: float = 0.125) -> Graph:
    return chain_rows(graph, LiveProfile(), slack)


def test_text_before_and_after() -> None:
    graph = _forward(_mobile())
    chained = _chained(graph)
    text = format_graph(chained)
    assert "row_chain(" in text and "row_chain(" not in format_graph(graph)
    assert chained.outputs == graph.outputs and chained.inputs == graph.inputs
    inner = [op.name for op in chained.ops if op.body for op in op.body.ops]
    outer = [op.name for op in chained.ops if op.body is None]
    assert {op.name for op in graph.ops} == {n for n in (*inner, *outer) if "copy_rows" not in n}


def test_the_peak_sinks() -> None:
    graph = _forward(_mobile())
    assert plan(_chained(graph)).arena_bytes < plan(graph).arena_bytes / 2


@pytest.mark.parametrize("name", ["convolutions", "depthwise", "residual", "pools"])
def test_the_forward_numbers_stay(name: str) -> None:
    graph = _forward(NETWORKS[name]())
    assert_same_forward(graph, _chained(graph))


@pytest.mark.parametrize("scheme", ["head", "last:2", "bias:2"])
def test_kernels_run_chains_in_a_training_step(scheme: str) -> None:
    forward = _forward(_mobile())
    options = TrainOptions()
    trained = prune(differentiate(forward, parse_scheme(scheme, forward), options, {}))
    chained = _chained(trained)
    assert any(op.kind == "row_chain" for op in chained.ops)
    assert_same_forward(trained, chained)
    assert_c_trains_alike(chained)


def _one_chain(model: bytes, batch: int = 1) -> list[Case]:
    """The whole model as one chain, with its values."""
    graph = fold_pad(read(model))

    def live_bytes(variant: Graph) -> list[int]:
        return [len(variant.ops)]

    chained = chain_rows(graph, live_bytes)
    assert chained.ops[0].int("batch") == 8
    chained = chained.with_ops([replace(op, attrs={"batch": batch}) for op in chained.ops])
    assert [op.kind for op in chained.ops] == ["row_chain"]
    cases = []
    for x in (np.int8(-128), np.int8(127), None):
        shape = graph[graph.inputs[0]].shape
        noise = np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8)
        values = noise if x is None else np.full(shape, x)
        wanted = run_graph(graph, values)
        (case,) = forward_cases(chained, values)
        for name in chained.outputs:
            assert np.array_equal(case.after[name], wanted[name])
        cases.append(case)
    return cases


def _random_network(seed: int) -> bytes:
    """Bottlenecks of odd shapes, some with a residual sum."""
    rng = np.random.default_rng(seed)
    net = Net(seed)
    y = net.image(1, int(rng.integers(5, 18)), int(rng.integers(5, 18)), int(rng.integers(1, 9)))
    for _ in range(int(rng.integers(1, 4))):
        wide, narrow = (int(n) for n in rng.integers(2, 20, 2))
        stride = int(rng.integers(1, 3))
        if stride == 1 and rng.random() < 0.5:
            y = net.add(y, _block(net, y, wide, y.shape[3], 3, 1))
        else:
            y = _block(net, y, wide, narrow, int(rng.choice((3, 5))), stride)
    return net.done(net.dense(net.same(net.b.mean(y), y), CLASSES))


@pytest.mark.parametrize("seed", range(12))
def test_batches_of_rows_never_cost_more_than_chains_save(seed: int) -> None:
    graph = _forward(_random_network(seed))
    live_bytes = LiveProfile()
    for slack in (0.125, 4.0):
        assert max(live_bytes(_chained(graph, slack))) <= max(live_bytes(graph))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("scheme", ["bias:3", "full"])
def test_plans_with_chains_are_never_larger(
    seed: int, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = read(_random_network(seed))
    training = Training(Path("model.tflite"), scheme)
    monkeypatch.setattr(pipeline, "ENOUGH_ARENA_BYTES", 1 << 40)
    without = prepare_graph(model, training)
    monkeypatch.setattr(pipeline, "ENOUGH_ARENA_BYTES", 0)
    forced = prepare_graph(model, training)
    assert not any(op.kind == "row_chain" for op in without.graph.ops)
    assert forced.plan.arena_bytes <= without.plan.arena_bytes


Make = Callable[[Net, Ref], Ref]
CHAINS: dict[str, Make] = {
    "bottleneck": lambda n, x: _block(n, x, 12, 5, 3, 1),
    "strides": lambda n, x: _block(n, _block(n, x, 8, 4, 3, 2), 8, 4, 5, 2),
    "residual": lambda n, x: n.add(x, _block(n, x, 9, x.shape[3], 3, 1)),
    "residual inside": lambda n, x: (lambda y: n.add(y, n.conv(n.conv(y, 4), 4)))(n.conv(x, 4)),
    "dilation": lambda n, x: n.conv(n.conv(x, 5, dilation=(2, 2)), 4, dilation=(3, 1)),
    "valid": lambda n, x: n.conv(
        n.conv(x, 5, padding="VALID"), 4, (2, 2), stride=(3, 2), padding="VALID"
    ),
    "multiplier": lambda n, x: n.conv(n.depthwise(x, 3), 2, (1, 1)),
    "one row left": lambda n, x: n.conv(n.conv(x, 5, stride=(4, 4)), 4, (5, 5)),
    "skipped rows": lambda n, x: n.conv(n.conv(x, 5, (1, 1)), 4, (1, 1), stride=(4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_the_kernel_equals_its_layers(name: str) -> None:
    net = Net(8)
    y = CHAINS[name](net, net.image(1, 13, 11, 4))
    model = net.done(y)
    assert_kernels([case for batch in (1, 2, 8) for case in _one_chain(model, batch)])


def test_batches_take_no_more_than_their_part() -> None:
    graph = _forward(_mobile())
    tight, roomy = _chained(graph, 0.0), _chained(graph, 0.5)
    live = LiveProfile()
    assert max(live(tight)) < max(live(roomy)) <= 1.5 * max(live(tight))
    assert_same_forward(graph, roomy)


def test_a_residual_block_runs_over_its_input() -> None:
    net = Net(8)
    x = net.image(1, 8, 8, 4)
    (case, *_) = _one_chain(net.done(net.add(x, _block(net, x, 9, 4, 3, 1))))
    assert row_plan(case.op)[1].capacities == (3, 1, 1, 0)
    assert row_plan(case.op)[1].in_place == {0}


def test_a_larger_stride_frees_the_input_in_time() -> None:
    net = Net(8)
    y = net.conv(net.image(1, 16, 16, 3), 4, stride=(2, 2))
    (case, *_) = _one_chain(net.done(net.conv(net.depthwise(y), 3, (1, 1))))
    assert row_plan(case.op)[1].in_place == {0}


def test_a_depthwise_convolution_runs_over_its_input() -> None:
    """A copy of the rows that are still read lets it write where they were."""
    net = Net(9)
    y = net.conv(net.image(1, 2, 2, 3), 16, (1, 1))
    y = net.same(net.b.pad(y, [(0, 0), (8, 8), (8, 8), (0, 0)]), y)
    y = net.same(net.b.relu6(y, out_scale=6 / 255, out_zero_point=-128), y)
    y = net.depthwise(y)
    y = net.same(net.b.relu6(y, out_scale=6 / 255, out_zero_point=-128), y)
    graph = read(net.done(net.dense(net.same(net.b.mean(y), y), CLASSES)))
    chained = _chained(graph)
    (chain,) = [op for op in chained.ops if op.body]
    assert chain.body is not None
    assert [op.kind for op in chain.body.ops] == ["copy_rows", "depthwise_conv2d"]
    made = plan(chained)
    assert chain.outputs[0] in made.in_place
    assert made.arena_bytes < plan(graph).arena_bytes
    assert_same_forward(graph, chained)
    assert_kernels(
        [c for c in forward_cases(chained, np.zeros((1, 2, 2, 3), np.int8)) if c.op.body]
    )
