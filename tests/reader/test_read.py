"""Files made operator by operator come back as the graph they were built from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.reader.models import bias, every_operator, finish, image, weights
from tests.support.tflite_builder import Builder
from tests.support.tflite_writer import OpSpec, QuantSpec, TensorSpec, write_model
from tinytrain.analysis import summarize, verify
from tinytrain.errors import InputError
from tinytrain.ir import Array, Graph, Op, Role, format_graph
from tinytrain.reader import read


def _only(graph: Graph) -> Op:
    verify(graph)
    assert len(graph.ops) == 1
    return graph.ops[0]


def _data(graph: Graph, name: str) -> Array:
    data = graph[name].data
    assert data is not None
    return data


def test_conv2d_text() -> None:
    b = Builder()
    y = b.conv2d(
        image(b), weights(6, 3, 3, 4), [0.01] * 5 + [0.02], bias(6), out_scale=0.1, stride=(2, 1),
        activation="RELU6",
    )  # fmt: skip
    graph = read(finish(b, y), name="net")
    assert format_graph(graph) == (
        "graph net(x:int8[1x8x8x4])\n"
        "  f conv2d:int8[1x4x8x6] = conv2d(x:int8[1x8x8x4], conv2d_weights:int8[6x3x3x4]@const, "
        "conv2d_bias:int32[6]@const) "
        "{activation=RELU6, dilation=(1, 1), padding=SAME, stride=(2, 1)}\n"
        "  return conv2d:int8[1x4x8x6]\n"
    )
    assert graph["conv2d_weights"].q.axis == 0
    assert graph["conv2d_weights"].q.scale[-1] == np.float32(0.02)
    assert graph["conv2d_bias"].q.axis == 0
    assert graph["x"].q.zero_point == -3
    assert graph["x"].source == 0
    assert _data(graph, "conv2d_bias").dtype == np.int32
    np.testing.assert_array_equal(_data(graph, "conv2d_bias"), bias(6))
    np.testing.assert_array_equal(_data(graph, "conv2d_weights"), weights(6, 3, 3, 4))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
def test_conv2d_options(padding: str, dilation: tuple[int, int], activation: str) -> None:
    b = Builder()
    y = b.conv2d(
        image(b), weights(2, 3, 3, 4), 0.01, bias(2), out_scale=0.1, padding=padding,
        dilation=dilation, activation=activation,
    )  # fmt: skip
    op = _only(read(finish(b, y)))
    assert op.kind == "conv2d"
    assert op.str("padding") == padding
    assert op.ints("dilation") == dilation
    assert op.str("activation") == activation


def test_conv2d_without_bias() -> None:
    b = Builder()
    y = b.conv2d(image(b), weights(2, 3, 3, 4), 0.01, out_scale=0.1)
    op = _only(read(finish(b, y)))
    assert not any(op.inputs[2:])


@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_conv2d(multiplier: int) -> None:
    b = Builder()
    channels = 4 * multiplier
    scales = list(np.linspace(0.01, 0.02, channels))
    y = b.depthwise_conv2d(
        image(b), weights(1, 3, 3, channels), scales, bias(channels), out_scale=0.1
    )
    graph = read(finish(b, y))
    op = _only(graph)
    assert op.kind == "depthwise_conv2d"
    assert graph[op.inputs[1]].q.axis == 3
    assert graph[op.outputs[0]].shape == (1, 8, 8, channels)


@pytest.mark.parametrize("keep", [False, True])
def test_fully_connected(keep: bool) -> None:
    b = Builder()
    x = image(b, 1, 3, 8)
    y = b.fully_connected(x, weights(5, 8), 0.01, bias(5), out_scale=0.1, keep_num_dims=keep)
    graph = read(finish(b, y))
    op = _only(graph)
    assert op.kind == "fully_connected"
    assert graph[op.outputs[0]].shape == ((1, 3, 5) if keep else (3, 5))
    assert graph[op.inputs[1]].q.axis is None


@pytest.mark.parametrize("kind", ["add", "mul"])
@pytest.mark.parametrize("activation", ["NONE", "RELU"])
def test_add_mul(kind: str, activation: str) -> None:
    b = Builder()
    x = image(b)
    y = getattr(b, kind)(x, x, out_scale=0.2, activation=activation)
    op = _only(read(finish(b, y)))
    assert op.kind == kind
    assert op.inputs == ("x", "x")
    assert op.str("activation") == activation


def test_add_constant_operand_stays_a_tensor() -> None:
    b = Builder()
    y = b.add(image(b), b.constant("c", weights(1, 8, 8, 4), 0.02), out_scale=0.2)
    graph = read(finish(b, y))
    assert graph[_only(graph).inputs[1]].role is Role.CONST


@pytest.mark.parametrize("kind", ["average_pool2d", "max_pool2d"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pools(kind: str, padding: str) -> None:
    b = Builder()
    y = getattr(b, kind)(image(b), size=(3, 2), stride=(2, 2), padding=padding)
    graph = read(finish(b, y))
    op = _only(graph)
    assert op.kind == kind
    assert op.str("padding") == padding
    assert graph[op.outputs[0]].shape == ((1, 4, 4, 4) if padding == "SAME" else (1, 3, 4, 4))


@pytest.mark.parametrize("keep", [False, True])
def test_mean_folds_its_axes(keep: bool) -> None:
    b = Builder()
    graph = read(finish(b, b.mean(image(b), keep_dims=keep)))
    op = _only(graph)
    assert op.kind == "mean"
    assert op.inputs == ("x",)
    assert graph[op.outputs[0]].shape == ((1, 1, 1, 4) if keep else (1, 4))
    assert all(t.role is not Role.CONST for t in graph.tensors.values())


def test_pad_folds_its_amounts() -> None:
    b = Builder()
    graph = read(finish(b, b.pad(image(b), [(0, 0), (1, 2), (3, 0), (0, 0)])))
    op = _only(graph)
    assert op.inputs == ("x",)
    assert graph[op.outputs[0]].shape == (1, 11, 11, 4)


@pytest.mark.parametrize("shape", [(1, 256), (1, -1), (1, 16, -1)])
def test_reshape(shape: tuple[int, ...]) -> None:
    b = Builder()
    graph = read(finish(b, b.reshape(image(b), shape)))
    op = _only(graph)
    assert op.kind == "reshape"
    assert op.inputs == ("x",)
    assert graph[op.outputs[0]].size == 256


def test_reshape_by_options_alone() -> None:
    quant = QuantSpec((0.1,), (0,))
    tensors = [TensorSpec("x", (1, 4, 4), "int8", quant), TensorSpec("y", (1, 16), "int8", quant)]
    ops = [OpSpec("RESHAPE", (0,), (1,), 1, "ReshapeOptions", {"NewShape": (1, -1)})]
    assert _only(read(write_model(tensors, ops, [0], [1]))).inputs == ("x",)


@pytest.mark.parametrize("axis", [-1, 1])
def test_concatenation(axis: int) -> None:
    b = Builder()
    x = image(b)
    graph = read(finish(b, b.concatenation([x, x, x], axis=axis)))
    op = _only(graph)
    assert op.inputs == ("x", "x", "x")
    assert graph[op.outputs[0]].shape == ((1, 8, 8, 12) if axis == -1 else (1, 24, 8, 4))


@pytest.mark.parametrize("kind", ["relu", "relu6"])
def test_relu(kind: str) -> None:
    b = Builder()
    assert _only(read(finish(b, getattr(b, kind)(image(b), out_scale=0.03)))).kind == kind


def test_softmax_and_quantize() -> None:
    b = Builder()
    y = b.softmax(b.quantize(image(b, 1, 10), out_scale=0.1, out_zero_point=4))
    graph = read(finish(b, y))
    verify(graph)
    assert [op.kind for op in graph.ops] == ["quantize", "softmax"]


def test_every_operator_in_one_model() -> None:
    graph = read(every_operator())
    verify(graph)
    summary = summarize(graph)
    assert len(summary.rows) == len(graph.ops) == 16
    assert summary.macs == sum(row.macs for row in summary.rows)


def test_float_borders_are_cut_off() -> None:
    b = Builder()
    x = b.input("image", (1, 8), dtype="float32")
    q = b.quantize(x, out_scale=0.1, out_zero_point=5)
    y = b.fully_connected(q, weights(3, 8), 0.01, bias(3), out_scale=0.1)
    graph = read(finish(b, b.dequantize(y, name="scores")))
    verify(graph)
    assert [op.kind for op in graph.ops] == ["fully_connected"]
    assert graph.inputs == ("quantize",)
    assert graph["quantize"].role is Role.INPUT
    assert graph["quantize"].q.zero_point == 5
    assert graph.outputs == ("fully_connected",)
    assert graph.notes == {"float_input": "image", "float_output": "scores"}


def test_output_that_is_also_consumed() -> None:
    b = Builder()
    hidden = b.relu(image(b), name="hidden")
    b.output(hidden)
    b.output(b.dequantize(hidden))
    graph = read(finish(b, b.relu6(hidden)))
    verify(graph)
    assert graph.outputs == ("hidden", "relu6")


def test_unused_tensors_vanish() -> None:
    b = Builder()
    b.tensor("left over", (1, 2, 3), dtype="float32")
    b.constant("spare", np.zeros(3, np.int64))
    graph = read(finish(b, b.relu(image(b))))
    assert sorted(graph.tensors) == ["relu", "x"]


def test_dead_channels_and_extreme_biases() -> None:
    b = Builder()
    limits = np.array([2**31 - 1, -(2**31), 0], np.int32)
    y = b.conv2d(image(b), weights(3, 1, 1, 4), [4e-9, 4e-9, 0.1], limits, out_scale=0.1)
    graph = read(finish(b, y))
    verify(graph)
    np.testing.assert_array_equal(_data(graph, "conv2d_bias"), limits)


def test_bias_with_a_dimension_it_does_not_have() -> None:
    quant, w = QuantSpec((0.1,), (0,)), weights(1, 1, 1, 2)
    tensors = [
        TensorSpec("x", (1, 4, 4, 2), "int8", quant),
        TensorSpec("w", (1, 1, 1, 2), "int8", QuantSpec((0.1, 0.2), (0, 0), 3), w),
        TensorSpec("b", (2,), "int32", QuantSpec((0.01, 0.02), (0, 0), 3), bias(2)),
        TensorSpec("y", (1, 4, 4, 2), "int8", quant),
    ]
    options = {"StrideH": 1, "StrideW": 1, "DepthMultiplier": 1}
    ops = [OpSpec("DEPTHWISE_CONV_2D", (0, 1, 2), (3,), 3, "DepthwiseConv2DOptions", options)]
    graph = read(write_model(tensors, ops, [0], [3]))
    verify(graph)
    assert graph["b"].q.axis == 0


def test_names_are_c_identifiers_and_unique() -> None:
    b = Builder()
    y = b.input("serving_default_input:0", (1, 8), scale=0.1)
    labels = [
        "model/dense/BiasAdd;model/dense/Relu",
        "model/dense/BiasAdd;model/other",
        "int",
        "42",
        "\u4e2d\u6587",
        "a" * 200,
        "relu_1",
    ]
    for label in labels:
        y = b.relu(y, name=label)
    graph = read(finish(b, y))
    verify(graph)
    made = [op.outputs[0] for op in graph.ops]
    assert graph.inputs == ("input",)
    assert made == ["dense_BiasAdd", "dense_BiasAdd_2", "t_int", "t4", "t5", "a" * 48, "relu_1_2"]
    assert [op.name for op in graph.ops][:2] == ["relu_0", "relu_1"]


def test_graph_takes_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "my net.v2.tflite"
    path.write_bytes(every_operator())
    assert read(path).name == "my_net_v2"
    assert read(str(path), name="other").name == "other"
    assert format_graph(read(path, "n")) == format_graph(read(path.read_bytes(), "n"))


@pytest.mark.parametrize("source", ["no/such/file.tflite", ".", "/dev/zero", "\0"])
def test_paths_that_are_no_files(source: str) -> None:
    with pytest.raises(InputError) as caught:
        read(source)
    assert caught.value.code in ("no-model", "unreadable-model")
