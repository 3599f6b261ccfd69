"""`keep_mask_bits` keeps bits instead of outputs that serve only as masks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.support.small_networks import NETWORKS
from tinytrain.interp import Interpreter
from tinytrain.ir import Graph, Op, Phase, Role, Tensor, format_graph
from tinytrain.ops.base import Step
from tinytrain.passes.mask_bits import keep_mask_bits
from tinytrain.passes.prune import prune
from tinytrain.reader import read
from tinytrain.train import TrainOptions, attach_loss, differentiate, parse_scheme

BOUNDS = {"act_min": -128, "act_max": 127}


def masked_twice(second: dict[str, int]) -> Graph:
    """`y` masks two errors; `z` masks one and is read whole by an update besides."""
    names = ["e", "m1", "m2", "m3", "y", "z"]
    tensors = [Tensor(name, (1, 2, 2, 5), "int8") for name in names]
    tensors += [
        Tensor("x", (1, 2, 2, 5), "int8", Role.INPUT),
        Tensor("s", (1,), "float32"),
        Tensor("target", (1,), "int32", Role.TARGET),
        Tensor("loss", (1,), "float32"),
        Tensor("w", (5, 5), "int8", Role.STATE, data=np.zeros((5, 5), np.int8)),
    ]
    ops = [
        Op("relu", "y", ("x",), ("y",)),
        Op("relu", "z", ("y",), ("z",)),
        Op("mean_squared_error", "loss", ("z", "target"), ("e", "s", "loss"), {}, Phase.BACKWARD),
        Op("mask_error", "m1", ("e", "z"), ("m1",), BOUNDS, Phase.BACKWARD),
        Op("mask_error", "m2", ("m1", "y"), ("m2",), BOUNDS, Phase.BACKWARD),
        Op("mask_error", "m3", ("m2", "y"), ("m3",), second, Phase.BACKWARD),
        Op("fully_connected_update", "w", ("z", "m3", "s", "w"), ("w",), {}, Phase.BACKWARD),
    ]
    return Graph("g", {t.name: t for t in tensors}, tuple(ops), ("x",), ("z", "loss"))


def test_keep_mask_bits() -> None:
    graph = masked_twice(BOUNDS)
    after = """\
graph g(x:int8[1x2x2x5])
  f y:int8[1x2x2x5] = relu(x:int8[1x2x2x5])
  f y_mask:uint8[3] = clamp_mask(y:int8[1x2x2x5]) {act_max=127, act_min=-128}
  f z:int8[1x2x2x5] = relu(y:int8[1x2x2x5])
  b e:int8[1x2x2x5], s:float32[1], loss:float32[1] = mean_squared_error(z:int8[1x2x2x5], target:int32[1]@target)
  b m1:int8[1x2x2x5] = mask_error(e:int8[1x2x2x5], z:int8[1x2x2x5]) {act_max=127, act_min=-128}
  b m2:int8[1x2x2x5] = mask_error(m1:int8[1x2x2x5], y_mask:uint8[3]) {act_max=127, act_min=-128}
  b m3:int8[1x2x2x5] = mask_error(m2:int8[1x2x2x5], y_mask:uint8[3]) {act_max=127, act_min=-128}
  b w:int8[5x5]@state = fully_connected_update(z:int8[1x2x2x5], m3:int8[1x2x2x5], s:float32[1], w:int8[5x5]@state)
  return z:int8[1x2x2x5], loss:float32[1]
"""  # noqa: E501
    assert format_graph(keep_mask_bits(graph)) == after
    assert format_graph(keep_mask_bits(keep_mask_bits(graph))) == after


def test_two_different_masks_keep_the_output() -> None:
    graph = masked_twice({"act_min": -128, "act_max": 100})
    assert format_graph(keep_mask_bits(graph)) == format_graph(graph)


def test_a_taken_name_is_not_replaced() -> None:
    graph = masked_twice(BOUNDS)
    rename = {"x": "y_mask"}
    ops = [replace(op, inputs=tuple(rename.get(n, n) for n in op.inputs)) for op in graph.ops]
    x = Tensor("y_mask", (1, 2, 2, 5), "int8", Role.INPUT)
    renamed = replace(graph, inputs=("y_mask",)).with_ops(ops, [x])
    result = keep_mask_bits(renamed)
    assert result["y_mask"].role is Role.INPUT
    assert result.ops[1].outputs == ("y_mask_2",)


def test_passes_do_not_change_the_numbers() -> None:
    for name in ("convolutions", "residual", "pools", "products"):
        graph = read(NETWORKS[name]())
        options = TrainOptions()
        inference = attach_loss(graph, options, {})
        plain = differentiate(inference, parse_scheme("full", inference), options, {})
        passed = keep_mask_bits(prune(plain))
        assert any(op.kind == "clamp_mask" for op in passed.ops)
        rng = np.random.default_rng(0)
        both = Interpreter(plain), Interpreter(passed)
        for index in range(4):
            x = rng.integers(-128, 128, graph[graph.inputs[0]].shape).astype(np.int8)
            for interpreter in both:
                interpreter.train_step(x, Step(3, index, np.float32(0.01), index > 1, index))
        for tensor, value in both[1].state.items():
            assert np.array_equal(value, both[0].state[tensor]), tensor
