"""What an operator definition is, and the registry that finds them.

Each file of this room defines the operators of one family, forward and backward: options from
tflite, support rules, shape rule, integer reference, gradient rule, cost, kernel binding. A class
registers itself by deriving from `OpDef` with a `kind`; no list has to be touched.

In: IR. Out: definitions looked up by kind. Must not know the stages that use them.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from tinytrain.errors import InternalError
from tinytrain.ir import Array, Attr, Graph, Op, Phase, Tensor
from tinytrain.numeric import random
from tinytrain.ops.optimizer import Optimizer

Param = int | float | str | Array | Mapping[str, "Param"]


@dataclass(frozen=True)
class Step:
    """The run-time values of one training step that operators see.

    Attributes:
        seed, index: key of the random streams.
        learning_rate: the caller's rate divided by the samples of a batch, float32 >= 0.
        apply: False in a calibration step: ranges and norms are measured, weights stay.
        target: class index (cross-entropy) or int8 vector (mean squared error).
    """

    seed: int = 0
    index: int = 0
    learning_rate: np.float32 = np.float32(0.0)  # noqa: RUF009 - immutable scalar
    apply: bool = True
    target: Array | int = 0

    def key(self, op: Op, attribute: str = "stream") -> random.Key:
        """The random key of an operator's stream, which this attribute names, in this step."""
        return random.stream_key(self.seed, self.index, op.int(attribute))


@dataclass(frozen=True)
class KernelCall:
    """How generated C runs an operator: ``kernel(&params, &io[, step])``.

    Attributes:
        kernel: C function; its structs are ``<kernel>_params`` and ``<kernel>_io``.
        params: field -> number, C enumerator, constant table (array) or nested struct.
        io: field -> tensor name; "" is NULL.
        scratch_bytes: size of the field ``scratch`` of io (0: there is none).
        takes_step: whether the kernel has a third argument ``const tt_step *``.
    """

    kernel: str
    params: Mapping[str, Param]
    io: Mapping[str, str]
    scratch_bytes: int = 0
    takes_step: bool = False


class TfliteOp(Protocol):
    """What the reader shows an operator definition of one tflite operator."""

    @property
    def inputs(self) -> Sequence[Tensor | None]:
        """Input tensors in file order; None where optional and absent."""
        ...

    @property
    def outputs(self) -> Sequence[Tensor]:
        """Output tensors in file order."""
        ...

    def options(self, table: Any) -> Any:
        """The builtin options as an instance of a schema class of the package `tflite`."""
        ...


class Error(NamedTuple):
    """An error tensor: int8 values of size ``q * scale[0] * gain``, relative to the first error.

    `scale` names a float32[1] tensor of the running step; `gain` is a constant known now. The
    real size is that times the first error's scale, see `GradBuilder.first_scale`.
    """

    tensor: str
    scale: str
    gain: float = 1.0

    def times(self, factor: float) -> Error:
        """The same integers, read as `factor` times as large."""
        return self._replace(gain=self.gain * factor)


@dataclass(frozen=True)
class Trained:
    """How a weight tensor is trained.

    Attributes:
        weights: int8 state that the forward pass reads.
        fraction: state with the extra bits, "" where the weight state is int8.
        bound: float32[2] state for the bound on the step.
        state: "int8" | "int16" | "float32".
        channels: trained input channels, () for all.
        rho: 1 / mean(x_real^2) or 1.
        tau: largest step relative to the tensor's norm; 0 for no bound.
        accumulator: int32 buffer of a batch, "" for immediate updates.
        batch: samples of a batch.
        optimizer: momentum and weight decay.
        velocity: state of the momentum, "" without.
        velocity_bits: int32[2] state: fraction bits of the velocities, and of the next ones.
    """

    weights: str
    fraction: str
    bound: str
    state: str
    channels: tuple[int, ...]
    rho: float
    tau: float
    accumulator: str = ""
    batch: int = 1
    optimizer: Optimizer = Optimizer()
    velocity: str = ""
    velocity_bits: str = ""


@dataclass(frozen=True)
class TrainedBias:
    """How a bias is trained.

    Attributes:
        bias: int32 state.
        accumulator: the batch's int32 buffer, "" for immediate updates.
        tau: largest step a sample relative to the int8 range of the layer's output; 0: no bound.
        momentum: Q16; 0 for none.
        velocity: int32 state of the momentum, "" without.
    """

    bias: str
    accumulator: str = ""
    tau: float = 0.0
    momentum: int = 0
    velocity: str = ""


class GradBuilder(Protocol):
    """What autodiff offers a gradient rule. Names are tensor names of the forward graph."""

    @property
    def graph(self) -> Graph:
        """The forward graph."""
        ...

    @property
    def first_scale(self) -> str:
        """Name of the float32[1] tensor with the real scale of the sample's first error."""
        ...

    def needs_error(self, name: str) -> bool:
        """Whether anything upstream of this tensor is trained."""
        ...

    def trained(self, name: str) -> Trained | None:
        """How this weight tensor is trained, None if frozen."""
        ...

    def trained_bias(self, op: Op) -> TrainedBias | None:
        """How this operator's bias is trained, None if frozen."""
        ...

    def error_of(self, name: str) -> Error:
        """The error of an output of the operator at hand."""
        ...

    def emit(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        /,
        **attrs: Attr,
    ) -> None:
        """Append a backward operator; it is named after the forward operator."""
        ...

    def emit_in(
        self,
        phase: Phase,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        /,
        **attrs: Attr,
    ) -> None:
        """The same in another phase."""
        ...

    def new_tensor(self, tag: str, shape: tuple[int, ...], dtype: str = "int8") -> str:
        """Declare an activation of the training graph."""
        ...

    def new_error(self, like: str, tag: str, shape: tuple[int, ...] | None = None) -> Error:
        """Declare an int8 error tensor (shape of `like` unless given) and its scale."""
        ...

    def new_range(self, tag: str) -> str:
        """Declare an error range, a float32[1] state that starts at 0."""
        ...

    def stream(self) -> int:
        """A fresh random stream number, or `NEAREST`."""
        ...

    def add_error(self, name: str, error: Error) -> None:
        """Contribute an error to a forward tensor; several are summed."""
        ...


class OpDef(ABC):
    """Definition of one operator kind."""

    kind: ClassVar[str] = ""
    tflite: ClassVar[str] = ""  # builtin operator name, if it is read from files
    # whether it only stands at a border of the model, where the reader cuts it off
    border_only: ClassVar[bool] = False
    # fewest and most inputs in a file; there is one output
    tflite_inputs: ClassVar[tuple[int, int]] = (1, 1)
    # pairs (input index, output index) that may share memory: each element is read before, or at
    # the same moment as, the one at its place is written
    in_place: ClassVar[tuple[tuple[int, int], ...]] = ()
    # whether it changes what the model knows, and so is kept though nothing reads its results
    trains: ClassVar[bool] = False
    # kinds whose kernel moves no data when input and output share memory: the call is dropped then
    alias: ClassVar[bool] = False

    _registry: ClassVar[dict[str, OpDef]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.kind:
            OpDef._registry[cls.kind] = cls()

    def parse(self, node: TfliteOp) -> Mapping[str, Attr]:
        """Attributes from the tflite options."""
        del node
        return {}

    def operands(self, node: TfliteOp) -> Sequence[Tensor | None]:
        """The inputs that stay tensors (those folded into attributes by `parse` are dropped)."""
        return node.inputs

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """Reasons why this instance is not supported; empty if it is."""
        del op, graph
        return []

    def in_place_pairs(self, op: Op, graph: Graph) -> tuple[tuple[int, int], ...]:
        """The pairs of `in_place` that hold for this instance."""
        del op, graph
        return self.in_place

    @abstractmethod
    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """Shapes of the outputs."""

    @abstractmethod
    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """The integer reference: the definition of the numbers."""

    def grad(self, op: Op, builder: GradBuilder) -> None:
        """Emit the backward operators, and contribute errors to the inputs."""
        raise InternalError("no-gradient", "ops", f"{self.kind} has no gradient", where=op.name)

    def macs(self, op: Op, graph: Graph) -> int:
        """Multiply-accumulates."""
        del op, graph
        return 0

    @abstractmethod
    def call(self, op: Op, graph: Graph) -> KernelCall:
        """The C call."""


@cache
def _load() -> Mapping[str, OpDef]:
    package = importlib.import_module("tinytrain.ops")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"tinytrain.ops.{module.name}")
    return OpDef._registry


def definition(op: Op | str) -> OpDef:
    """The definition of an operator kind."""
    kind = op if isinstance(op, str) else op.kind
    try:
        return _load()[kind]
    except KeyError:
        raise InternalError("unknown-op", "ops", f"no operator kind {kind!r}") from None


def tflite_definitions() -> Mapping[str, OpDef]:
    """Builtin operator name -> definition, for the reader and the support table."""
    return {d.tflite: d for d in _load().values() if d.tflite}


def optional(names: Sequence[str], index: int) -> str:
    """The name at `index`, "" if there is none."""
    return names[index] if index < len(names) else ""


__all__ = [
    "Error",
    "GradBuilder",
    "KernelCall",
    "OpDef",
    "Param",
    "Phase",
    "Step",
    "TfliteOp",
    "Trained",
    "TrainedBias",
    "definition",
    "optional",
    "tflite_definitions",
]
