"""Run a `.tflite` model in independent reference interpreters and return every intermediate tensor.

In: a model file's bytes and its inputs. Out: tensors by tflite index, for comparison with ours.
Must not know: the package under test.

Three interpreters are known; any subset may be installed, and all may run in one process:

- `tflm` (PyPI `tflite-micro`, CPython 3.11+): TFLM's reference kernels. The best single referee.
- `litert` (PyPI `ai-edge-litert`, CPython 3.11+): TFLite's reference kernels of today.
- `tflite-runtime` (CPython up to 3.11, NumPy 1): TFLite's reference kernels of version 2.14.

None is right everywhere (`Trace.doubts` tells where not), so `Panel` takes each tensor from the
first interpreter that can be trusted with it, and insists that the others which can be agree.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import tflite

from tests.support.tflite_writer import Array

_MODULES = {
    "tflm": "tflite_micro.python.tflite_micro.runtime",
    "litert": "ai_edge_litert.interpreter",
    "tflite-runtime": "tflite_runtime.interpreter",
}

IN_PLACE_KINDS = frozenset({"ADD", "MUL", "SOFTMAX"})
"""What tflite-runtime may compute over its own input, even where all tensors are preserved."""


@dataclass(frozen=True)
class OpInfo:
    """One operator of the model: schema name, and tflite indices of its tensors (-1: absent)."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Trace:
    """One run: all operators' outputs by tflite index, and why some are not to be believed."""

    referee: str
    tensors: Mapping[int, Array]
    doubts: Mapping[int, str]

    def trusted(self) -> dict[int, Array]:
        """Return the tensors without a doubt."""
        return {i: value for i, value in self.tensors.items() if i not in self.doubts}


class _Interpreter(Protocol):
    def run(self, inputs: Sequence[Array], wanted: Sequence[int]) -> dict[int, Array]: ...


def available() -> tuple[str, ...]:
    """Return the names of the interpreters that can be imported here, the most trusted first."""
    return tuple(
        name for name, module in _MODULES.items() if importlib.util.find_spec(module.split(".")[0])
    )


def operators(model: bytes) -> tuple[OpInfo, ...]:
    """List the operators of the model's first subgraph in order."""
    root = tflite.Model.GetRootAs(model, 0)
    graph = root.Subgraphs(0)
    names = {v: k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}
    found = []
    for i in range(graph.OperatorsLength()):
        op = graph.Operators(i)
        code = root.OperatorCodes(op.OpcodeIndex())
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        inputs = tuple(op.Inputs(k) for k in range(op.InputsLength()))
        outputs = tuple(op.Outputs(k) for k in range(op.OutputsLength()))
        found.append(OpInfo(names[number], inputs, outputs))
    return tuple(found)


class Referee:
    """One interpreter with one model loaded; `run` may be called many times."""

    def __init__(self, name: str, model: bytes) -> None:
        """Load `model` into interpreter `name`, one of `available()`; raises what that raises."""
        module = importlib.import_module(_MODULES[name])
        self.name = name
        self._interpreter: _Interpreter
        if name == "tflm":
            self._interpreter = _Tflm(module, model)
        else:
            self._interpreter = _Tflite(module, model)
        self._wanted = [index for op in operators(model) for index in op.outputs]
        self._doubts = _doubts(name, model)

    def run(self, *inputs: Array) -> Trace:
        """Run once; `inputs` have the model's shapes and dtypes, in the model's order."""
        return Trace(self.name, self._interpreter.run(inputs, self._wanted), self._doubts)

    def classify(self, samples: Array) -> Array:
        """Return the class with the largest output for each sample (N, ...), one run a sample."""
        last = self._wanted[-1]
        runs = (self._interpreter.run([sample[None]], [last])[last] for sample in samples)
        return np.array([int(scores.argmax()) for scores in runs])


class Panel:
    """All interpreters that are installed and accept the model, asked together."""

    def __init__(self, model: bytes) -> None:
        """Load `model` everywhere; `refused` says which interpreters did not take it, and why."""
        self.referees: list[Referee] = []
        self.refused: dict[str, str] = {}
        for name in available():
            try:
                self.referees.append(Referee(name, model))
            except (RuntimeError, ValueError) as error:
                self.refused[name] = str(error)

    def run(self, *inputs: Array) -> dict[int, Array]:
        """Return the trusted tensors by tflite index.

        A tensor that no interpreter here can be trusted with is absent. Raises AssertionError
        where two that can be trusted disagree, so that a wrong entry in `doubts` shows itself.
        """
        agreed: dict[int, Array] = {}
        source: dict[int, str] = {}
        for referee in self.referees:
            for index, value in referee.run(*inputs).trusted().items():
                if index not in agreed:
                    agreed[index], source[index] = value, referee.name
                elif not np.array_equal(agreed[index], value):
                    raise AssertionError(f"{source[index]} and {referee.name} differ at {index}")
        return agreed


class _Tflite:
    """tflite-runtime and its successor ai-edge-litert: one API under two names."""

    def __init__(self, module: Any, model: bytes) -> None:
        self._interpreter = module.Interpreter(
            model_content=model,
            experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=True,
        )
        self._interpreter.allocate_tensors()

    def run(self, inputs: Sequence[Array], wanted: Sequence[int]) -> dict[int, Array]:
        details = self._interpreter.get_input_details()
        for detail, value in zip(details, inputs, strict=True):
            self._interpreter.set_tensor(detail["index"], value)
        self._interpreter.invoke()
        return {index: self._interpreter.get_tensor(index) for index in wanted}


class _Tflm:
    """tflite-micro's Python interpreter."""

    def __init__(self, module: Any, model: bytes) -> None:
        self._model = model
        self._interpreter = module.Interpreter.from_bytes(
            model,
            arena_size=_arena_bytes(model),
            intrepreter_config=module.InterpreterConfig.kPreserveAllTensors,
        )

    def run(self, inputs: Sequence[Array], wanted: Sequence[int]) -> dict[int, Array]:
        for position, value in enumerate(inputs):
            self._interpreter.set_input(value, position)
        self._interpreter.invoke()
        return {i: np.array(self._interpreter.GetTensor(i, 0)["tensor_data"]) for i in wanted}


def _arena_bytes(model: bytes) -> int:
    """Room for all activations side by side, scratch and TFLM's own records, and to spare."""
    graph = tflite.Model.GetRootAs(model, 0).Subgraphs(0)
    shapes = (graph.Tensors(i).ShapeAsNumpy() for i in range(graph.TensorsLength()))
    elements = sum(int(np.prod(shape)) for shape in shapes)
    return (1 << 20) + 8 * elements + 1024 * int(graph.TensorsLength())


def _doubts(name: str, model: bytes) -> dict[int, str]:
    ops = operators(model)
    facts = _facts(model)
    if name == "litert":
        reason = "litert rounds the requantization of FULLY_CONNECTED once, TFLM twice"
        return _downstream(ops, lambda op: op.kind == "FULLY_CONNECTED", reason)
    if name == "tflm":

        def rescales(op: OpInfo) -> bool:
            x, y = facts[op.inputs[0]], facts[op.outputs[0]]
            return op.kind == "RELU6" and (x.scales, x.zero_points) != (y.scales, y.zero_points)

        return _downstream(ops, rescales, "TFLM's RELU6 does not rescale to its output's scale")

    def skips_rows(op: OpInfo) -> bool:
        per_channel = op.kind == "FULLY_CONNECTED" and len(facts[op.inputs[1]].scales) > 1
        return per_channel and facts[op.outputs[0]].rank > 2

    reason = "tflite-runtime's per-channel FULLY_CONNECTED takes the first dimension for all rows"
    return _downstream(ops, skips_rows, reason) | _overwritten(ops)


def _overwritten(ops: Sequence[OpInfo]) -> dict[int, str]:
    """Doubt what in-place operators read, also through a RESHAPE: it shares its input's memory."""
    aliases = {op.outputs[0]: op.inputs[0] for op in ops if op.kind == "RESHAPE"}
    doubts: dict[int, str] = {}
    for op in ops:
        if op.kind in IN_PLACE_KINDS:
            for index in op.inputs:
                reason = f"tflite-runtime may overwrite it while computing {op.kind}"
                doubts[index] = reason
                while index in aliases:
                    index = aliases[index]
                    doubts[index] = reason
    return doubts


def _downstream(
    ops: Sequence[OpInfo], is_source: Callable[[OpInfo], bool], reason: str
) -> dict[int, str]:
    """Doubt the outputs of the source operators and all that is computed from them."""
    doubts: dict[int, str] = {}
    for op in ops:
        if is_source(op):
            doubts.update(dict.fromkeys(op.outputs, reason))
        elif any(index in doubts for index in op.inputs):
            doubts.update(dict.fromkeys(op.outputs, f"computed from a tensor in doubt: {reason}"))
    return doubts


@dataclass(frozen=True)
class _Facts:
    """What decides about doubts in one tensor."""

    rank: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]


def _facts(model: bytes) -> list[_Facts]:
    graph = tflite.Model.GetRootAs(model, 0).Subgraphs(0)
    found = []
    for i in range(graph.TensorsLength()):
        tensor = graph.Tensors(i)
        quant = tensor.Quantization()
        count = 0 if quant is None else quant.ScaleLength()
        scales = tuple(quant.Scale(k) for k in range(count))
        zero_points = tuple(quant.ZeroPoint(k) for k in range(count))
        found.append(_Facts(tensor.ShapeLength(), scales, zero_points))
    return found
