"""ROW_CHAIN: a chain of layers run row by row through line buffers, and the copy that may begin it.

The definition of its numbers is its body, run layer by layer; the kernel runs the same kernels on
one row after another, so it computes the same bits. Between its layers there are only the rows
that are still needed. Source: DESIGN section 4; the schedule is in `row_schedule`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from tinytrain.errors import InternalError
from tinytrain.ir import Array, Graph, Op, Tensor
from tinytrain.ops.base import KernelCall, OpDef, Param, Step, definition
from tinytrain.ops.geometry import Window
from tinytrain.ops.row_schedule import RowPlan, Source, Stage, plan_rows

MAX_STAGES = 8  # TT_ROW_STAGES
MAX_OPERANDS = 4  # TT_ROW_OPERANDS
CONVOLUTIONS = {"tt_conv2d_s8": "conv2d", "tt_depthwise_conv2d_s8": "depthwise_conv2d"}
KINDS = {"conv2d", "depthwise_conv2d", "add", "copy_rows"}


class CopyRows(OpDef):
    """The same values in other memory: what follows may then be written over the original."""

    kind = "copy_rows"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The input's."""
        return (graph[op.inputs[0]].shape,)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """The input."""
        del op, graph, step
        return (inputs[0].copy(),)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_copy_s8`."""
        params = {"count": graph[op.inputs[0]].size}
        return KernelCall("tt_copy_s8", params, {"input": op.inputs[0], "output": op.outputs[0]})


def can_chain(op: Op, graph: Graph) -> bool:
    """Whether an operator can be a stage: it makes rows of its input's rows."""
    if op.kind not in KINDS or len(op.outputs) != 1:
        return False
    out, sources = graph[op.outputs[0]], [graph[name] for name in _sources(op)]
    rows = all(t.in_arena and t.dtype == "int8" and _is_image(t) for t in (out, *sources))
    if op.kind == "add":
        return rows and all(t.shape == out.shape for t in sources)
    fixed = [graph[name] for name in op.inputs[1:] if name]
    return rows and not any(t.in_arena for t in fixed)


def _is_image(tensor: Tensor) -> bool:
    return len(tensor.shape) == 4 and tensor.shape[0] == 1 and tensor.size > 0


def _sources(op: Op) -> tuple[str, ...]:
    """The activations that a stage reads."""
    return op.inputs[:2] if op.kind == "add" else op.inputs[:1]


def body_of(op: Op) -> Graph:
    """The chain's layers, which must be there."""
    if op.body is None:
        raise InternalError("no-body", "ops", "a chain without layers", where=op.name)
    return op.body


def operands_of(op: Op) -> tuple[str, ...]:
    """The activations that a chain reads from outside, each once."""
    body = body_of(op)
    return tuple(name for name in op.inputs if body[name].in_arena)


@cache
def _stages(body: Graph, operands: tuple[str, ...]) -> tuple[Stage, ...]:
    made = {op.outputs[0]: index for index, op in enumerate(body.ops)}
    found = []
    for op in body.ops:
        x, out = body[_sources(op)[0]], body[op.outputs[0]]
        sources = tuple(
            Source(made[n], True) if n in made else Source(operands.index(n), False)
            for n in _sources(op)
        )
        stage = Stage(sources, out.shape[1], out.nbytes // out.shape[1], x.shape[1],
                      x.nbytes // x.shape[1], elementwise=op.kind == "add")  # fmt: skip
        if op.kind in CONVOLUTIONS.values():
            kernel = body[op.inputs[1]].shape[1:3]
            window = Window.of(op, x.shape, (kernel[0], kernel[1]))
            reach = (window.kernel_h - 1) * window.dilation_h + 1
            stage = replace(stage, stride=window.stride_h, pad=window.pad_h, reach=reach)
        found.append(stage)
    return tuple(found)


def row_plan(op: Op) -> tuple[tuple[Stage, ...], RowPlan]:
    """The stages of a chain and what they need."""
    stages = _stages(body_of(op), operands_of(op))
    return stages, plan_rows(stages, op.int("batch"))


class RowChain(OpDef):
    """Its inputs are the activations and constants that its body reads from outside.

    Attribute `batch`: rows that a layer makes at a time; more rows are faster and take more memory.
    """

    kind = "row_chain"

    def in_place_pairs(self, op: Op, graph: Graph) -> tuple[tuple[int, int], ...]:
        """Operands whose rows are all read before the output's rows reach them."""
        del graph
        operands = operands_of(op)
        free = row_plan(op)[1].in_place
        return tuple((op.inputs.index(operands[i]), 0) for i in sorted(free))

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """Of the body's output."""
        del graph
        body = body_of(op)
        return (body[body.outputs[0]].shape,)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Layer by layer."""
        del graph
        body = body_of(op)
        values = dict(zip(op.inputs, inputs, strict=True))
        for inner in body.ops:
            given = [values[n] if n else None for n in inner.inputs]
            rule = definition(inner)
            (values[inner.outputs[0]],) = rule.run(inner, body, given, step)  # type: ignore[arg-type]
        return (values[body.outputs[0]],)

    def macs(self, op: Op, graph: Graph) -> int:
        """Of all layers."""
        del graph
        body = body_of(op)
        return sum(definition(inner).macs(inner, body) for inner in body.ops)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_row_chain`; scratch holds the layers' own scratch, then the line buffers."""
        del graph
        body = body_of(op)
        stages, plan = row_plan(op)
        calls = [_row_call(inner, body, op.int("batch")) for inner in body.ops]
        end = max(-(-call.scratch_bytes // 4) * 4 for call in calls)
        params: dict[str, Param] = {"stages": len(stages), "batch": op.int("batch")}
        io = {f"operands[{i}]": name for i, name in enumerate(operands_of(op))}
        for i, (stage, rows, inner) in enumerate(
            zip(stages, plan.capacities, body.ops, strict=True)
        ):
            call = calls[i]
            params[f"stage[{i}]"] = {
                **_stage_params(stage, rows, end),
                **_kernel_params(call, inner),
            }
            io |= {f"{k}[{i}]": call.io[k] for k in ("weights", "bias") if call.io.get(k)}
            end += -(-rows * stage.row_bytes // 4) * 4
        return KernelCall("tt_row_chain", params, {**io, "output": op.outputs[0]}, end)


def _row_call(op: Op, body: Graph, batch: int) -> KernelCall:
    """The call of a layer that makes a batch of rows, from as many rows as its window reaches over;
    an elementwise one is called for each row."""
    names = (*_sources(op), op.outputs[0])
    shapes = {n: (1, 1, *body[n].shape[2:]) for n in names}
    if op.kind in CONVOLUTIONS.values():
        x, kernel = body[op.inputs[0]], body[op.inputs[1]].shape[1:3]
        window = Window.of(op, x.shape, (kernel[0], kernel[1]))
        reach_h = (window.kernel_h - 1) * window.dilation_h + 1
        reach_w = (window.kernel_w - 1) * window.dilation_w + 1
        width = (window.out_w - 1) * window.stride_w + reach_w
        right = max(0, width - window.pad_w - window.in_w)
        attrs = {**op.attrs, "padding": "EXPLICIT", "pads": (0, window.pad_w, 0, right)}
        op = replace(op, attrs=attrs)
        count = min(batch, window.out_h)
        shapes[x.name] = (1, (count - 1) * window.stride_h + reach_h, *x.shape[2:])
        shapes[op.outputs[0]] = (1, count, *body[op.outputs[0]].shape[2:])
    rows = {n: replace(body[n], shape=shape) for n, shape in shapes.items()}
    return definition(op).call(op, replace(body, tensors={**body.tensors, **rows}))


def _stage_params(stage: Stage, capacity: int, buffer: int) -> dict[str, Param]:
    sources = [s.index + (0 if s.is_stage else MAX_STAGES) for s in stage.sources]
    return {
        "source": sources[0],
        "other": sources[-1],
        "rows": stage.rows,
        "row_bytes": stage.row_bytes,
        "in_rows": stage.in_rows,
        "in_row_bytes": stage.in_row_bytes,
        "stride": stage.stride,
        "pad": stage.pad,
        "reach": stage.reach,
        "capacity": capacity,
        "buffer": buffer,
    }


def _kernel_params(call: KernelCall, op: Op) -> Mapping[str, Param]:
    if call.kernel in CONVOLUTIONS:
        name = CONVOLUTIONS[call.kernel]
        return {"kind": f"TT_ROW_{name.upper()}", "layer": {name: call.params}}
    if call.kernel == "tt_add_s8":
        return {"kind": "TT_ROW_ADD", "layer": {"add": call.params}}
    if call.kernel == "tt_copy_s8":
        return {"kind": "TT_ROW_COPY"}
    raise InternalError("no-row-kernel", "ops", f"{call.kernel} in a chain", where=op.name)
