"""The content of a `.tflite` file as plain dataclasses.

In: a path or bytes. Out: `RawModel`: names, numbers and byte views, nothing judged yet except that
the structure is sound. Must not know operators, quantization rules or the IR.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from tinytrain.errors import InputError, TinytrainError
from tinytrain.reader.flatbuffer import MAX_FILE_BYTES, BoundsCheck, corrupt

Numbers = npt.NDArray[Any]

# an empty flatbuffers table: the defaults of any options class
_EMPTY_TABLE = bytes((4, 0, 4, 0, 4, 0, 0, 0))
_EMPTY_TABLE_POSITION = 4


def _enum_names(enum: Any) -> dict[int, str]:
    return {value: key for key, value in vars(enum).items() if isinstance(value, int)}


OPERATORS = _enum_names(tflite.BuiltinOperator)
OPTIONS = _enum_names(tflite.BuiltinOptions)
DTYPES = {code: name.lower() for code, name in _enum_names(tflite.TensorType).items()}


@dataclass(frozen=True, eq=False)
class RawTensor:
    """A tensor as the file has it. `data` are the constant's bytes, None if there are none."""

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]  # -1 where the size was open at conversion; () if not given
    buffer: int
    data: bytes | memoryview | None
    scales: Numbers  # float32
    zero_points: Numbers  # int64
    axis: int
    oddity: str = ""  # a feature that no operator of ours can take, in words


@dataclass(frozen=True, eq=False)
class RawOp:
    """An operator as the file has it. Input -1 is absent."""

    index: int
    operator: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options_class: str  # name of the schema class, "NONE" if there are no options
    options_position: int
    file: bytes
    custom: str = ""

    def options(self, table: Any) -> Any:
        """The options as an instance of the schema class `table`; its defaults if not given.

        Raises:
            InputError: the file holds options of another class, or broken ones.
        """
        where = f"operator {self.index}, {self.operator}"
        instance = table()
        if self.options_class == "NONE":
            instance.Init(_EMPTY_TABLE, _EMPTY_TABLE_POSITION)
            return instance
        if self.options_class != table.__name__:
            raise corrupt(f"the options are {self.options_class}", where)
        BoundsCheck(self.file).check_options(self.options_position, self.options_class, where)
        instance.Init(self.file, self.options_position)
        return instance


@dataclass(frozen=True, eq=False)
class RawModel:
    """The main subgraph of a file."""

    tensors: tuple[RawTensor, ...]
    ops: tuple[RawOp, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    subgraphs: int


def read_bytes(path: Path) -> bytes:
    """The bytes of a model file, at most MAX_FILE_BYTES + 1 of them."""
    try:
        if not path.is_file():
            raise InputError(
                "no-model",
                "reader",
                "this is no regular file" if path.exists() else "there is no such file",
                where=str(path),
                hint="give the path of a .tflite model",
            )
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(
            "unreadable-model", "reader", f"the file cannot be read: {error}", where=str(path)
        ) from error


def parse_file(data: bytes) -> RawModel:
    """Read the main subgraph.

    Raises:
        InputError: ``not-a-tflite-model``, ``corrupt-model`` or ``model-too-large``.
    """
    BoundsCheck(data).check_model()
    try:
        return _parse(data)
    except TinytrainError:
        raise
    except Exception as error:  # whatever the flatbuffers layer may throw at broken input
        raise corrupt(f"the file cannot be parsed ({type(error).__name__}: {error})") from error


def _parse(data: bytes) -> RawModel:
    model = tflite.Model.GetRootAs(data, 0)
    if model.SubgraphsLength() < 1:
        raise corrupt("the file has no graph")
    graph = model.Subgraphs(0)
    buffers = [model.Buffers(i) for i in range(model.BuffersLength())]
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    tensors = [_tensor(i, graph.Tensors(i), buffers) for i in range(graph.TensorsLength())]
    ops = [_operator(i, graph.Operators(i), codes, data) for i in range(graph.OperatorsLength())]
    return RawModel(
        tuple(tensors),
        tuple(ops),
        _ints(graph.InputsLength(), graph.InputsAsNumpy),
        _ints(graph.OutputsLength(), graph.OutputsAsNumpy),
        model.SubgraphsLength(),
    )


def _ints(length: int, vector: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in vector()) if length else ()


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", errors="replace")


def _tensor(index: int, tensor: Any, buffers: list[Any]) -> RawTensor:
    oddity, payload = "", None
    number = int(tensor.Buffer())
    if number >= len(buffers) and number > 0:
        raise corrupt(f"buffer {number} does not exist", f"tensor {index}")
    if buffers:
        buffer = buffers[number]
        if buffer.DataLength():
            payload = buffer.DataAsNumpy().data
        if buffer.Offset() > 1:
            oddity = "its data lies outside of the flatbuffer"
    if tensor.IsVariable():
        oddity = "it is a variable (state kept between inferences)"
    if tensor.Sparsity() is not None:
        oddity = "it is stored sparse"
    scales, zero_points, axis = np.zeros(0, np.float32), np.zeros(0, np.int64), 0
    quant = tensor.Quantization()
    if quant is not None:
        if quant.ScaleLength():
            scales = np.asarray(quant.ScaleAsNumpy(), np.float32)
        if quant.ZeroPointLength():
            zero_points = np.asarray(quant.ZeroPointAsNumpy(), np.int64)
        axis = int(quant.QuantizedDimension())
        if quant.DetailsType():
            oddity = "its quantization is a custom or blockwise one"
    return RawTensor(
        index,
        _text(tensor.Name()),
        DTYPES.get(int(tensor.Type()), f"type {int(tensor.Type())}"),
        _ints(tensor.ShapeLength(), tensor.ShapeAsNumpy),
        _ints(tensor.ShapeSignatureLength(), tensor.ShapeSignatureAsNumpy),
        number,
        payload,
        scales,
        zero_points,
        axis,
        oddity,
    )


def _operator(index: int, op: Any, codes: list[Any], data: bytes) -> RawOp:
    number = int(op.OpcodeIndex())
    if not 0 <= number < len(codes):
        raise corrupt(f"operator code {number} does not exist", f"operator {index}")
    code = codes[number]
    # newer files repeat small codes in both fields, and keep large ones in the second
    builtin = max(int(code.BuiltinCode()), int(code.DeprecatedBuiltinCode()))
    options = op.BuiltinOptions()
    return RawOp(
        index,
        OPERATORS.get(builtin, f"UNKNOWN_{builtin}"),
        _ints(op.InputsLength(), op.InputsAsNumpy),
        _ints(op.OutputsLength(), op.OutputsAsNumpy),
        OPTIONS.get(int(op.BuiltinOptionsType()), "?") if options is not None else "NONE",
        int(options.Pos) if options is not None else 0,
        data,
        _text(code.CustomCode()),
    )
