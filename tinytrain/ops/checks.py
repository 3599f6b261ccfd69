"""Support rules that many operators share.

In: an operator in its graph. Out: reasons in words. Must not know single operators.
"""

from __future__ import annotations

from collections.abc import Iterable

from tinytrain.ir import Graph, Op, Tensor

MAX_RANK = 4
MAX_RATIO = float(1 << 30)


def int8_problems(op: Op, graph: Graph) -> list[str]:
    """Operands must be int8 with one scale."""
    found = []
    for name in (*op.inputs, *op.outputs):
        if not name:
            found.append("an operand is missing")
            continue
        tensor = graph[name]
        if tensor.dtype != "int8" or tensor.quant is None:
            found.append(f"operand of type {tensor.dtype}, int8 is needed")
        elif tensor.quant.per_channel:
            found.append("operand with per-channel scales")
    return found


def same_quantization_problems(tensors: Iterable[Tensor]) -> list[str]:
    """Operands and result must have one scale and zero point."""
    kinds = {(t.q.scale0, t.q.zero_point) for t in tensors}
    return ["operands and result differ in scale or zero point"] if len(kinds) > 1 else []


def ratio_problems(ratio: float) -> list[str]:
    """The product of operand scales must be below 2^30 output scales."""
    return [f"scale ratio of {ratio:.3g}, 2^30 is too much"] if ratio >= MAX_RATIO else []
