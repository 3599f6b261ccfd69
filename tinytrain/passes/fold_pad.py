"""Fold PAD into the convolutions that read it, where it puts their zero point round the input.

The kernels skip taps outside of their input, which is the same as reading the zero point there.
So the padded copy, the largest tensor of many networks, never exists. Forward the numbers stay the
same; backward the error of what lies outside is never computed. Source: DESIGN section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tinytrain.ir import Graph, Op
from tinytrain.ops.geometry import Window

PADS = ("pad", "pad_v2")
CONVOLUTIONS = ("conv2d", "depthwise_conv2d")
SIZE_LIMIT = 0xFFFF  # sizes and paddings are 16 bits in the kernels


def fold_pad(graph: Graph) -> Graph:
    """Let convolutions read what a PAD surrounds; a PAD that nothing else reads goes.

    Args:
        graph: a forward graph.
    """
    pads = {op.outputs[0]: op for op in graph.ops if _is_border(op, graph)}
    ops: list[Op] = []
    for op in graph.ops:
        while op.kind in CONVOLUTIONS and op.inputs[0] in pads:
            folded = _fold(op, pads[op.inputs[0]], graph)
            if folded is None:
                break
            op = folded
        ops.append(op)
    used = {name for op in ops for name in op.inputs} | set(graph.outputs)
    for pad in reversed(list(pads.values())):  # a PAD may be read by another one
        if pad.outputs[0] not in used:
            ops.remove(pad)
            used = {name for op in ops for name in op.inputs} | set(graph.outputs)
    return graph.with_ops(ops)


def _is_border(op: Op, graph: Graph) -> bool:
    """Whether an operator puts its input's zero point round height and width."""
    if op.kind not in PADS:
        return False
    amounts = op.ints("paddings")
    flat = len(amounts) == 8 and amounts[:2] == (0, 0) and amounts[6:] == (0, 0)
    x, out = graph[op.inputs[0]], graph[op.outputs[0]]
    same = x.quant is not None and out.quant is not None
    return flat and same and op.int("value") == out.q.zero_point == x.q.zero_point


def _fold(op: Op, pad: Op, graph: Graph) -> Op | None:
    """The convolution on the PAD's input; None where a size leaves its 16 bits."""
    kernel = graph[op.inputs[1]].shape[1:3]
    window = Window.of(op, graph[pad.outputs[0]].shape, (kernel[0], kernel[1]))
    top, bottom, left, right = pad.ints("paddings")[2:6]
    below, beside = _after(window)
    pads = (top + window.pad_h, left + window.pad_w, bottom + below, right + beside)
    if max(pads) > SIZE_LIMIT:
        return None
    attrs: Mapping[str, object] = {**op.attrs, "padding": "EXPLICIT", "pads": pads}
    return replace(op, inputs=(pad.inputs[0], *op.inputs[1:]), attrs=attrs)  # type: ignore[arg-type]


def _after(window: Window) -> tuple[int, int]:
    """Rows below and columns to the right that a window needs beyond its input."""
    reach_h = (window.out_h - 1) * window.stride_h + (window.kernel_h - 1) * window.dilation_h + 1
    reach_w = (window.out_w - 1) * window.stride_w + (window.kernel_w - 1) * window.dilation_w + 1
    return (
        max(0, reach_h - window.pad_h - window.in_h),
        max(0, reach_w - window.pad_w - window.in_w),
    )
