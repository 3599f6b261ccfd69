"""The flat program that templates print: every name, offset, pointer and comment is decided here.

In: a `Plan`. Out: a frozen `CProgram`. Must not know files, boards or tools.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from codegen.names import identifier, model_name
from codegen.tables import C_TYPES, CStruct, CTable, StructPool, TablePool
from tinytrain.errors import InputError, InternalError
from tinytrain.ir import Array, Attr, Graph, Op, Phase, Role, Tensor
from tinytrain.ir.names import Names
from tinytrain.memory import Plan
from tinytrain.numeric import PROFILE
from tinytrain.ops.base import KernelCall, definition

PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.APPLY)
_MEMORY = {
    Role.INPUT: "arena",
    Role.ACTIVATION: "arena",
    Role.STATE: "state",
    Role.BUFFER: "buffers",
}


@dataclass(frozen=True)
class CSlot:
    """A pointer in a call's io struct: the field, the C expression, and the tensor in words."""

    field: str
    pointer: str
    comment: str


@dataclass(frozen=True)
class CCall:
    """A kernel call.

    Attributes:
        op: index of the operator in the schedule, as in the manifest.
        comment: operator and shapes, one line.
        params: name of the parameter struct.
        dropped: whether no data would move, so that nothing is called.
        training_only: a forward operator that only the backward pass needs.
    """

    op: int
    comment: str
    kernel: str
    params: str
    slots: tuple[CSlot, ...]
    takes_step: bool
    dropped: bool
    training_only: bool


@dataclass(frozen=True)
class CPhase:
    """A function: its name, its calls, and the members of the frame that they use."""

    name: str
    calls: tuple[CCall, ...]
    memories: tuple[str, ...]
    has_training_only: bool
    unused_frame: bool


@dataclass(frozen=True)
class CInitial:
    """First value of a piece of the state."""

    offset: int
    bytes: int
    table: str
    comment: str


@dataclass(frozen=True)
class CTensor:
    """A tensor in memory, for the manifest: `memory` is arena, state or buffers."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str
    memory: str
    offset: int


@dataclass(frozen=True)
class COp:
    """An operator, for the manifest; the scratch is (offset, bytes) in the arena."""

    name: str
    kind: str
    phase: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scratch: tuple[int, int] | None


@dataclass(frozen=True)
class COutput:
    """The result: kind "scores" (float32) or "values" (int8), place in the arena, quantization."""

    kind: str
    offset: int
    count: int
    shape: tuple[int, ...]
    scale: float
    zero_point: int


@dataclass(frozen=True)
class CProgram:
    """Everything that is printed about a model.

    Attributes:
        name, macro: prefix of symbols, and of macros.
        target: "none" (inference only), "class" or "values".
        input_scale, input_zero_point: of the int8 input.
        phases: forward, then backward and apply where they exist.
        initial: pieces of the state that do not begin as 0.
    """

    name: str
    macro: str
    fingerprint: int
    input_offset: int
    input_shape: tuple[int, ...]
    input_scale: float
    input_zero_point: int
    output: COutput
    target: str
    classes: int
    loss_offset: int
    state_bytes: int
    buffer_bytes: int
    arena_bytes: int
    weights: tuple[CTable, ...]
    tables: tuple[CTable, ...]
    structs: tuple[CStruct, ...]
    phases: tuple[CPhase, ...]
    initial: tuple[CInitial, ...]
    tensors: tuple[CTensor, ...]
    ops: tuple[COp, ...]

    @property
    def input_bytes(self) -> int:
        """Bytes of one input."""
        return int(np.prod(self.input_shape, dtype=np.int64))

    @property
    def memory_bytes(self) -> int:
        """All RAM of the model."""
        return self.state_bytes + self.buffer_bytes + self.arena_bytes

    @property
    def has_backward(self) -> bool:
        """Whether it can be trained."""
        return any(phase.name == "backward" for phase in self.phases)

    @property
    def has_apply(self) -> bool:
        """Whether gradients are accumulated over a batch."""
        return any(phase.name == "apply" for phase in self.phases)

    @property
    def flash_bytes(self) -> int:
        """Bytes of the constant tables, without code and parameter structs."""
        return sum(table.nbytes for table in (*self.weights, *self.tables))


def build_program(plan: Plan, *, name: str | None = None) -> CProgram:
    """Make the flat program of a plan.

    Args:
        name: of files and symbols; the graph's name unless given.

    Raises:
        InputError: the name cannot be one, or the model's input or output cannot be generated.
        InternalError: the plan contradicts itself.
    """
    return _Builder(plan, model_name(name, plan.graph.name)).build()


class _Builder:
    """One program under way."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan = plan
        self.graph = plan.graph
        self.name = name
        names = Names(("arena", "state", "buffers", "frame", "training", "forward", "backward",
                       "apply", "initial"))  # fmt: skip
        self.static = TablePool(names)
        self.weights = TablePool(Names(), prefix=f"{name}_")
        self.structs = StructPool(names, self.static)
        self.calls = [definition(op).call(op, self.graph) for op in self.graph.ops]
        self.op_names = Names()

    def build(self) -> CProgram:
        """The program."""
        graph, plan = self.graph, self.plan
        x = _single_input(graph)
        loss, target, classes = self._loss()
        output = self._output(loss)
        phases = self._phases()
        return CProgram(
            name=self.name,
            macro=self.name.upper(),
            fingerprint=fingerprint(graph),
            input_offset=plan.offsets[x.name],
            input_shape=x.shape,
            input_scale=x.quant.scale0 if x.quant else 1.0,
            input_zero_point=x.quant.zero_point if x.quant else 0,
            output=output,
            target=target,
            classes=classes,
            loss_offset=plan.offsets[loss] if loss else 0,
            state_bytes=plan.state.state_bytes,
            buffer_bytes=plan.state.buffer_bytes,
            arena_bytes=plan.arena_bytes,
            phases=phases,
            initial=self._initial(),
            weights=tuple(self.weights.tables),
            tables=tuple(self.static.tables),
            structs=tuple(self.structs.structs),
            tensors=self._tensor_table(),
            ops=self._op_table(),
        )

    def _phases(self) -> tuple[CPhase, ...]:
        needed = needed_for_inference(self.graph)
        made: dict[Phase, list[CCall]] = {phase: [] for phase in PHASES}
        for index, (op, call) in enumerate(zip(self.graph.ops, self.calls, strict=True)):
            training_only = op.phase is Phase.FORWARD and op.name not in needed
            made[op.phase].append(replace(self._call(index, op, call), training_only=training_only))
        return tuple(
            _phase(phase, calls) for phase, calls in made.items() if calls or phase is PHASES[0]
        )

    def _call(self, index: int, op: Op, call: KernelCall) -> CCall:
        comment = f"{op.name}: {op.kind}, {_shapes(self.graph, op)}"
        if definition(op).alias and self._same_memory(op):
            return CCall(index, comment, call.kernel, "", (), False, True, False)
        if call.takes_step and op.phase is Phase.FORWARD:
            raise InternalError("step", "codegen", "inference has no step", where=op.name)
        owner = self.op_names.unique(identifier(op.name))
        params = self.structs.add(owner, f"{call.kernel}_params", call.params)
        slots = [self._slot(field, name) for field, name in call.io.items()]
        if call.scratch_bytes:
            offset = self.plan.scratch_offsets[op.name]
            comment_ = f"{call.scratch_bytes} bytes"
            slots.append(CSlot("scratch", f"(void *)(arena + {offset})", comment_))
        return CCall(
            index, comment, call.kernel, params.name, tuple(slots), call.takes_step, False, False
        )

    def _same_memory(self, op: Op) -> bool:
        source, output = self.graph[op.inputs[0]], self.graph[op.outputs[0]]
        if not (source.in_arena and output.in_arena):
            return False
        return self.plan.offsets[source.name] == self.plan.offsets[output.name]

    def _slot(self, field: str, name: str) -> CSlot:
        if not name:
            return CSlot(field, "NULL", "")
        tensor = self.graph[name]
        return CSlot(field, self._pointer(tensor), f"{name} {_describe(tensor)}")

    def _pointer(self, tensor: Tensor) -> str:
        ctype = C_TYPES[tensor.dtype]
        if tensor.role is Role.CONST:
            return self._weights(tensor).name
        if tensor.role is Role.TARGET:
            return f"(const {ctype} *)frame->target"
        memory, offset = self._place(tensor)
        return f"({ctype} *)({memory} + {offset})"

    def _place(self, tensor: Tensor) -> tuple[str, int]:
        """(memory, offset in it) of a tensor in RAM."""
        memory = _MEMORY[tensor.role]
        if tensor.in_arena:
            return memory, self.plan.offsets[tensor.name]
        offset = self.plan.state.offsets[tensor.name]
        return memory, offset - (self.plan.state.state_bytes if memory == "buffers" else 0)

    def _weights(self, tensor: Tensor) -> CTable:
        if tensor.data is None:
            raise InternalError("no-data", "codegen", "a constant has no value", where=tensor.name)
        values = _typed(tensor)
        return self.weights.add(identifier(tensor.name), values, _describe(tensor))

    def _initial(self) -> tuple[CInitial, ...]:
        pieces: list[CInitial] = []
        for tensor in self.plan.state.state:
            if tensor.data is None or not np.any(_typed(tensor).view(np.uint8)):
                continue
            offset = self.plan.state.offsets[tensor.name]
            comment = f"{tensor.name} {_describe(tensor)}"
            pieces.append(CInitial(offset, tensor.nbytes, self._weights(tensor).name, comment))
        return tuple(pieces)

    def _loss(self) -> tuple[str, str, int]:
        """(loss tensor, kind of target, classes); ("", "none", 0) without training."""
        found = [
            (op, c) for op, c in zip(self.graph.ops, self.calls, strict=True) if "loss" in c.io
        ]
        backward = self.graph.phase(Phase.BACKWARD, Phase.APPLY)
        if not found and not backward:
            return "", "none", 0
        if len(found) != 1:
            raise InternalError("loss", "codegen", f"{len(found)} operators make a loss, not one")
        op, call = found[0]
        loss, target = call.io["loss"], self.graph[call.io["target"]]
        if loss not in self.graph.outputs:
            message = "the loss is not an output of the graph: its memory would be used again"
            raise InternalError("loss", "codegen", message, where=loss)
        if target.dtype == "int8":
            return loss, "values", 0
        return loss, "class", self.graph[op.inputs[0]].size

    def _output(self, loss: str) -> COutput:
        late = {n for op in self.graph.ops if op.phase is not Phase.FORWARD for n in op.outputs}
        names = [n for n in self.graph.outputs if n != loss and n not in late]
        if len(names) != 1:
            raise InputError(
                "outputs",
                "codegen",
                f"the model has {len(names)} outputs; generated code has one",
                where=", ".join(names),
                hint="cut the model at the output that counts",
            )
        tensor = self.graph[names[0]]
        kinds = {"float32": "scores", "int8": "values"}
        if tensor.dtype not in kinds or not tensor.in_arena or tensor.size > 0xFFFF:
            raise InputError(
                "output-type",
                "codegen",
                f"the output is {_describe(tensor)}; generated code gives int8 values or float32 "
                "scores, at most 65,535",
                where=tensor.name,
            )
        quant = tensor.quant
        return COutput(
            kind=kinds[tensor.dtype],
            offset=self.plan.offsets[tensor.name],
            count=tensor.size,
            shape=tensor.shape,
            scale=quant.scale0 if quant else 1.0,
            zero_point=quant.zero_point if quant else 0,
        )

    def _tensor_table(self) -> tuple[CTensor, ...]:
        table: list[CTensor] = []
        for tensor in self.graph.tensors.values():
            if tensor.role in _MEMORY:
                memory, offset = self._place(tensor)
                role = tensor.role.value
                table.append(CTensor(tensor.name, tensor.dtype, tensor.shape, role, memory, offset))
        return tuple(sorted(table, key=lambda t: t.name))

    def _op_table(self) -> tuple[COp, ...]:
        table: list[COp] = []
        for op, call in zip(self.graph.ops, self.calls, strict=True):
            scratch = None
            if call.scratch_bytes:
                scratch = (self.plan.scratch_offsets[op.name], call.scratch_bytes)
            phase = op.phase.value
            table.append(COp(op.name, op.kind, phase, op.inputs, op.outputs, scratch))
        return tuple(table)


def needed_for_inference(graph: Graph) -> frozenset[str]:
    """Names of the forward operators on whose results the forward outputs depend."""
    forward = graph.phase(Phase.FORWARD)
    wanted = set(graph.outputs)
    needed: set[str] = set()
    for op in reversed(forward):
        if wanted.intersection(op.outputs):
            needed.add(op.name)
            wanted.update(op.inputs)
    return frozenset(needed)


def fingerprint(graph: Graph) -> int:
    """32 bits of a hash over operators, tensors and their values: independent of the plan."""
    digest = hashlib.sha256(PROFILE.encode())
    for op in sorted(graph.ops, key=lambda op: op.name):
        attrs = [(key, _plain(value)) for key, value in sorted(op.attrs.items())]
        digest.update(repr((op.kind, op.name, op.inputs, op.outputs, attrs)).encode())
        if op.body is not None:
            digest.update(fingerprint(op.body).to_bytes(4, "little"))
    for tensor in sorted(graph.tensors.values(), key=lambda t: t.name):
        quant = tensor.quant
        scales = (_plain(quant.scale), quant.zero_point, quant.axis) if quant else ()
        shape = tuple(map(int, tensor.shape))
        digest.update(repr((tensor.name, tensor.dtype, shape, tensor.role.value, scales)).encode())
        if tensor.data is not None:
            values = _typed(tensor)
            digest.update(values.astype(values.dtype.newbyteorder("<")).tobytes())
    return int.from_bytes(digest.digest()[:4], "little")


def _plain(value: Attr) -> str:
    """The same text whichever NumPy scalars an attribute has picked up."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    if isinstance(value, float):
        return float(value).hex()
    return str(value)


def _typed(tensor: Tensor) -> Array:
    data = tensor.data
    assert data is not None
    if data.size != tensor.size or data.dtype != np.dtype(tensor.dtype):
        found = f"{data.dtype}{list(data.shape)}"
        message = f"its value is {found}, not {_describe(tensor)}"
        raise InternalError("tensor-value", "codegen", message, where=tensor.name)
    return np.ascontiguousarray(data).reshape(-1)


def _single_input(graph: Graph) -> Tensor:
    inputs = [graph[name] for name in graph.inputs if graph[name].role is Role.INPUT]
    if len(inputs) != 1 or inputs[0].dtype != "int8":
        found = ", ".join(f"{t.name} {_describe(t)}" for t in inputs) or "none"
        raise InputError(
            "inputs",
            "codegen",
            f"generated code takes one int8 input; the model's inputs: {found}",
            hint="quantize the model with an int8 input",
        )
    return inputs[0]


def _phase(phase: Phase, calls: Iterable[CCall]) -> CPhase:
    calls = tuple(calls)
    text = " ".join(slot.pointer for call in calls for slot in call.slots)
    memories = tuple(name for name in ("state", "buffers", "arena") if f"({name} + " in text)
    has_training_only = any(call.training_only for call in calls)
    uses_frame = (
        memories or has_training_only or "frame->" in text or any(c.takes_step for c in calls)
    )
    return CPhase(phase.value, calls, memories, has_training_only, not uses_frame)


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]"


def _shapes(graph: Graph, op: Op) -> str:
    """Shapes of the arena tensors: ``[1,8,8,3] -> [1,8,8,16]``."""

    def show(names: Iterable[str]) -> str:
        found = [graph[n] for n in names if n and graph[n].in_arena and graph[n].size > 1]
        return " ".join(f"[{','.join(map(str, t.shape))}]" for t in found) or "-"

    return f"{show(op.inputs)} -> {show(op.outputs)}"
