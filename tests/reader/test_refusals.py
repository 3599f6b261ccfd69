"""What is not supported is refused by one table that lists all of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.reader.models import bias, finish, image, weights
from tests.support.tflite_builder import Builder
from tests.support.tflite_writer import OpSpec, QuantSpec, TensorSpec, write_model
from tinytrain.analysis.support import WHOLE_MODEL
from tinytrain.errors import InputError
from tinytrain.reader import UnsupportedError, read

QUANT = QuantSpec((0.1,), (0,))


def refused(data: bytes) -> UnsupportedError:
    """The refusal of a model."""
    with pytest.raises(UnsupportedError) as caught:
        read(data)
    return caught.value


def test_all_reasons_at_once_in_file_order() -> None:
    b = Builder()
    x = image(b)
    y = b.op("HARD_SWISH", (x,), b.tensor("a", x.shape, scale=0.1))
    y = b.relu(y)
    y = b.op("CUSTOM", (y,), b.tensor("b", x.shape, scale=0.1))
    y = b.op("WHILE", (y,), b.tensor("d", x.shape, scale=0.1))
    y = b.op("RELU", (y,), b.tensor("e", x.shape))
    error = refused(finish(b, y))
    assert [(row.index, row.operator) for row in error.rows] == [
        (0, "HARD_SWISH"),
        (2, "CUSTOM ''"),
        (3, "WHILE"),
        (4, "RELU"),
    ]
    assert error.rows[2].reason == "control flow"
    assert error.rows[3].reason == "no quantization parameters (e)"
    assert error.message == "4 operators are not supported"
    for row in error.rows:
        assert row.operator in str(error) and row.reason in str(error)


def test_definitions_and_file_rules_share_the_table() -> None:
    b = Builder()
    x = image(b)
    y = b.conv2d(x, weights(2, 3, 3, 4), 0.01, bias(2), out_scale=0.1, activation="TANH")
    y = b.op("ABS", (y,), b.tensor("a", y.shape, scale=0.1))
    assert [row.operator for row in refused(finish(b, y)).rows] == ["CONV_2D", "ABS"]


def test_float_model_says_how_to_convert() -> None:
    b = Builder()
    x = b.input("x", (1, 8), dtype="float32")
    w = b.constant("w", np.zeros((4, 8), np.float32))
    y = b.op("FULLY_CONNECTED", (x, w), b.tensor("y", (1, 4), dtype="float32"))
    error = refused(finish(b, y))
    assert [row.reason for row in error.rows] == ["float32 arithmetic"]
    assert "full-integer int8" in error.hint and "representative_dataset" in error.hint


def test_hybrid_model() -> None:
    b = Builder()
    x = b.input("x", (1, 8), dtype="float32")
    w = b.constant("w", weights(4, 8), 0.01)
    y = b.op("FULLY_CONNECTED", (x, w), b.tensor("y", (1, 4), dtype="float32"))
    error = refused(finish(b, y))
    assert error.rows[0].reason.startswith("hybrid")
    assert "full-integer int8" in error.hint


def test_float_in_the_middle() -> None:
    b = Builder()
    y = b.dequantize(image(b))
    y = b.op("HARD_SWISH", (y,), b.tensor("f", y.shape, dtype="float32"))
    y = b.quantize(y, out_scale=0.1)
    error = refused(finish(b, y))
    assert {row.index for row in error.rows} == {0, 1, 2}


def test_uint8_border() -> None:
    b = Builder()
    x = b.input("x", (1, 8), dtype="uint8", scale=0.1, zero_point=128)
    error = refused(finish(b, b.quantize(x, out_scale=0.1)))
    assert any("inference_input_type = int8" in row.reason for row in error.rows)


@pytest.mark.parametrize("shape", [(2, 8), (8,)])
def test_batch(shape: tuple[int, ...]) -> None:
    b = Builder()
    x = b.input("x", shape, scale=0.1)
    error = refused(finish(b, b.relu(x)))
    assert error.rows[0].index == WHOLE_MODEL
    assert "batch" in error.rows[0].reason


@pytest.mark.parametrize("shape", [(1, -1, 4), (1, 0, 4)])
def test_dynamic_shapes(shape: tuple[int, ...]) -> None:
    tensors = [TensorSpec("x", shape, "int8", QUANT), TensorSpec("y", shape, "int8", QUANT)]
    error = refused(write_model(tensors, [OpSpec("RELU", (0,), (1,))], [0], [1]))
    assert any("dynamic" in row.reason for row in error.rows)


def test_inputs_and_outputs() -> None:
    b = Builder()
    a, c = image(b), b.input("c", (1, 8, 8, 4), scale=0.1)
    b.output(c)
    reasons = [row.reason for row in refused(finish(b, b.add(a, c, out_scale=0.1))).rows]
    assert reasons == [
        "2 inputs, exactly one is needed",
        "output c is not computed by any operator",
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda q: None, "no quantization parameters"),
        (lambda q: QuantSpec((), ()), "no quantization parameters"),
        (lambda q: QuantSpec((0.0,), (0,)), "a scale that is zero, negative or not a number"),
        (lambda q: QuantSpec((-0.1,), (0,)), "a scale that is zero, negative or not a number"),
        (lambda q: QuantSpec((np.nan,), (0,)), "a scale that is zero, negative or not a number"),
        (lambda q: QuantSpec((np.inf,), (0,)), "a scale that is zero, negative or not a number"),
        (lambda q: QuantSpec((1e-30,), (0,)), "a scale beyond what float32 arithmetic can take"),
        (lambda q: QuantSpec((0.1, 0.2), (0, 1)), "per-channel zero points other than 0"),
        (lambda q: QuantSpec((0.1, 0.2, 0.3), (0,)), "3 scales that fit no dimension"),
        (lambda q: QuantSpec((0.1, 0.2), (0, 0), 5), "2 scales that fit no dimension"),
        (lambda q: QuantSpec((0.1,), (0, 0)), "2 zero points for 1 scales"),
        (lambda q: QuantSpec((0.1,), (128,)), "a zero point outside of int8"),
    ],
)
def test_weight_quantization(change: Callable[[QuantSpec], QuantSpec | None], reason: str) -> None:
    weight = TensorSpec("w", (2, 8), "int8", change(QUANT), weights(2, 8))
    tensors = [
        TensorSpec("x", (1, 8), "int8", QUANT),
        weight,
        TensorSpec("y", (1, 2), "int8", QUANT),
    ]
    ops = [OpSpec("FULLY_CONNECTED", (0, 1), (2,), 1, "FullyConnectedOptions")]
    rows = refused(write_model(tensors, ops, [0], [2])).rows
    assert f"{reason} (w)" in [row.reason for row in rows]
    activation = dataclasses.replace(tensors[0], quant=change(QUANT))
    if reason != "a scale beyond what float32 arithmetic can take":
        relu = [activation, TensorSpec("y", (1, 8), "int8", QUANT)]
        assert refused(write_model(relu, [OpSpec("RELU", (0,), (1,))], [0], [1])).rows


@pytest.mark.parametrize("dtype", ["int16", "int64", "bool", "float32", "uint8"])
def test_activation_types(dtype: str) -> None:
    tensors = [TensorSpec("x", (1, 8), dtype, QUANT), TensorSpec("y", (1, 8), dtype, QUANT)]
    rows = refused(write_model(tensors, [OpSpec("RELU", (0,), (1,))], [0], [1])).rows
    assert any(dtype in row.reason for row in rows)


@pytest.mark.zoo
def test_float_resnet8_of_the_zoo(zoo: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read(zoo / "models" / "mlperf_pretrainedResnet.tflite")
    assert len({row.index for row in caught.value.rows}) == 16
    assert "full-integer int8" in caught.value.hint


@pytest.mark.parametrize("kind", ["CONV_2D", "RELU", "ADD"])
@pytest.mark.parametrize("change", [-1, 1])
def test_too_few_and_too_many_inputs(kind: str, change: int) -> None:
    b = Builder()
    x = b.input("x", (1, 4, 4, 2), scale=0.1)
    kernel = b.constant("w", np.ones((2, 1, 1, 2), np.int8), scale=0.1)
    given = {"CONV_2D": [x, kernel], "RELU": [x], "ADD": [x, x]}[kind]
    given = given[:change] if change < 0 else [*given, x, x]
    b.output(b.op(kind, given, b.tensor("y", (1, 4, 4, 2), scale=0.1)))
    with pytest.raises(InputError, match=f"has {len(given)} inputs; it takes") as caught:
        read(b.build())
    assert kind in caught.value.where
