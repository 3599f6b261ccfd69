"""`prune` keeps what the outputs and the trained states need, and nothing else."""

from __future__ import annotations

import numpy as np

from tinytrain.ir import Graph, Op, Phase, Role, Tensor, format_graph
from tinytrain.passes.prune import prune


def graph_with_useless_errors() -> Graph:
    """The error of `a` serves the bias whose name ends in "_range"; that of `x` serves nothing."""
    state = {"role": Role.STATE, "data": np.zeros(1, np.int32)}
    tensors = [
        Tensor("x", (1, 4), "int8", Role.INPUT),
        Tensor("a", (1, 4), "int8"),
        Tensor("dead", (1, 4), "int8"),
        Tensor("e", (1, 4), "int8"),
        Tensor("s", (1,), "float32"),
        Tensor("target", (1,), "int32", Role.TARGET),
        Tensor("loss", (1,), "float32"),
        Tensor("sensor_range", (1,), "int32", **state),  # type: ignore[arg-type]
        Tensor("r", (1,), "int32", **state),  # type: ignore[arg-type]
        Tensor("ex", (1, 4), "int8"),
        Tensor("sx", (1,), "float32"),
    ]
    ops = [
        Op("relu", "a", ("x",), ("a",)),
        Op("relu", "dead", ("a",), ("dead",)),
        Op("mean_squared_error", "loss", ("a", "target"), ("e", "s", "loss"), {}, Phase.BACKWARD),
        Op("reduce_error", "ex", ("e", "s", "r"), ("ex", "sx", "r"), {}, Phase.BACKWARD),
        Op("bias_update", "b", ("e", "s", "sensor_range"), ("sensor_range",), {}, Phase.BACKWARD),
    ]
    return Graph("g", {t.name: t for t in tensors}, tuple(ops), ("x",), ("a", "loss"))


def test_prune() -> None:
    graph = graph_with_useless_errors()
    before = """\
graph g(x:int8[1x4])
  f a:int8[1x4] = relu(x:int8[1x4])
  f dead:int8[1x4] = relu(a:int8[1x4])
  b e:int8[1x4], s:float32[1], loss:float32[1] = mean_squared_error(a:int8[1x4], target:int32[1]@target)
  b ex:int8[1x4], sx:float32[1], r:int32[1]@state = reduce_error(e:int8[1x4], s:float32[1], r:int32[1]@state)
  b sensor_range:int32[1]@state = bias_update(e:int8[1x4], s:float32[1], sensor_range:int32[1]@state)
  return a:int8[1x4], loss:float32[1]
"""  # noqa: E501
    after = """\
graph g(x:int8[1x4])
  f a:int8[1x4] = relu(x:int8[1x4])
  b e:int8[1x4], s:float32[1], loss:float32[1] = mean_squared_error(a:int8[1x4], target:int32[1]@target)
  b sensor_range:int32[1]@state = bias_update(e:int8[1x4], s:float32[1], sensor_range:int32[1]@state)
  return a:int8[1x4], loss:float32[1]
"""  # noqa: E501
    assert format_graph(graph) == before
    pruned = prune(graph)
    assert format_graph(pruned) == after
    assert not {"dead", "ex", "sx", "r"} & set(pruned.tensors)
    assert format_graph(prune(pruned)) == after
    assert format_graph(graph) == before


def test_a_needed_error_keeps_its_makers() -> None:
    graph = graph_with_useless_errors()
    further = Tensor("b0", (1,), "int32", Role.STATE, data=np.zeros(1, np.int32))
    update = Op("bias_update", "b0", ("ex", "sx", "b0"), ("b0",), {}, Phase.BACKWARD)
    pruned = prune(graph.with_ops([*graph.ops, update], [further]))
    assert [op.name for op in pruned.ops] == ["a", "loss", "ex", "b", "b0"]
