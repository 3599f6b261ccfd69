"""The invariants that every graph keeps, whichever stage made it.

In: a graph. Out: nothing, or InternalError: a stage has a bug. Shares no code with the stages it
judges. Must not know files, training schemes or memory.
"""

from __future__ import annotations

from tinytrain.errors import InternalError, TinytrainError
from tinytrain.ir import Graph, Op, Role, Tensor
from tinytrain.ir.graph import ITEM_BYTES
from tinytrain.ops.base import definition

_STORED = (Role.CONST, Role.STATE, Role.BUFFER)
_QUANTIZED_INPUT = ("int8",)


def verify(graph: Graph) -> None:
    """Check names, order, single assignment, dtypes, constant data and shapes.

    Raises:
        InternalError: the first invariant that does not hold.
    """
    for name, tensor in graph.tensors.items():
        _check_tensor(name, tensor)
    for name in (*graph.inputs, *graph.outputs):
        _tensor(graph, name, "the graph's borders")
    for name in graph.inputs:
        if graph[name].role is not Role.INPUT:
            raise _error("bad-role", f"input {name} has the role {graph[name].role.value}", name)
        if graph[name].dtype in _QUANTIZED_INPUT and graph[name].quant is None:
            raise _error("no-quantization", f"input {name} is not quantized", name)
    op_names: set[str] = set()
    defined = {n for n, t in graph.tensors.items() if t.role is not Role.ACTIVATION}
    for op in graph.ops:
        if op.name in op_names:
            raise _error("duplicate-op", f"two operators are named {op.name}", op.name)
        op_names.add(op.name)
        _check_operands(graph, op, defined)
        _check_shapes(graph, op)
    for name in graph.outputs:
        if name not in defined:
            raise _error("undefined-tensor", f"output {name} is never made", name)


def _error(code: str, message: str, where: str) -> InternalError:
    return InternalError(code, "analysis", message, where=where)


def _tensor(graph: Graph, name: str, where: str) -> Tensor:
    if name not in graph.tensors:
        raise _error("unknown-tensor", f"there is no tensor {name!r}", where)
    return graph[name]


def _check_tensor(key: str, tensor: Tensor) -> None:
    """Name, dtype, shape, data and scale of one tensor."""
    if key != tensor.name:
        raise _error("bad-name", f"tensor {tensor.name} is filed under {key}", key)
    if tensor.dtype not in ITEM_BYTES:
        raise _error("bad-dtype", f"no such element type: {tensor.dtype}", key)
    if any(not isinstance(n, int) or n < 0 for n in tensor.shape):
        raise _error("bad-shape", f"shape {tensor.shape}", key)
    if tensor.role is Role.CONST and tensor.data is None:
        raise _error("no-data", "a constant without data", key)
    if tensor.data is not None:
        if tensor.role not in _STORED:
            raise _error("bad-role", f"data in a tensor with role {tensor.role.value}", key)
        if tensor.data.shape != tensor.shape or tensor.data.dtype.name != tensor.dtype:
            found = f"{tensor.data.dtype.name}{list(tensor.data.shape)}"
            raise _error("bad-data", f"{found} for {tensor.dtype}{list(tensor.shape)}", key)
    quant = tensor.quant
    if quant is not None:
        if not quant.scale or any(not 0.0 < s < float("inf") for s in quant.scale):
            raise _error("bad-scale", "a scale that is not positive and finite", key)
        if quant.per_channel:
            axis = quant.axis
            fits = axis is not None and 0 <= axis < len(tensor.shape)
            if not fits or tensor.shape[axis or 0] != len(quant.scale):
                raise _error("bad-scale", "scales that fit no dimension", key)


def _check_operands(graph: Graph, op: Op, defined: set[str]) -> None:
    """Inputs are defined; activations are made once, states only in place."""
    for name in op.inputs:
        if name and _tensor(graph, name, op.name).name not in defined:
            raise _error("undefined-tensor", f"{name} is used before it is made", op.name)
    if len(set(op.outputs)) != len(op.outputs):
        raise _error("not-ssa", "an output is listed twice", op.name)
    for name in op.outputs:
        role = _tensor(graph, name, op.name).role
        if role is Role.ACTIVATION:
            if name in defined:
                raise _error("not-ssa", f"{name} is made twice", op.name)
            defined.add(name)
        elif role not in (Role.STATE, Role.BUFFER):
            raise _error("bad-role", f"{name} is written, its role is {role.value}", op.name)
        elif name not in op.inputs:
            raise _error("bad-state", f"{name} is written but not among the inputs", op.name)


def _check_shapes(graph: Graph, op: Op) -> None:
    """The shape rule of the definition gives the shapes that the outputs have."""
    rule = definition(op)
    try:
        expected = tuple(tuple(shape) for shape in rule.shape(op, graph))
    except TinytrainError:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise _error("bad-operands", f"the shape rule fails: {kind}: {error}", op.name) from error
    found = tuple(graph[name].shape for name in op.outputs)
    if expected != found:
        raise _error("bad-shape", f"shapes {found}, the rule gives {expected}", op.name)
