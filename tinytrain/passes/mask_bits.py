"""Keep one bit an element where the backward pass needs an output only for its clamp mask.

`mask_error` and `fold_error` read the forward output to see where it was clamped. Unless a weight
gradient keeps that output anyway, a bit an element does. Source: DESIGN section 4.
"""

from __future__ import annotations

from dataclasses import replace

from tinytrain.ir import Graph, Op, Phase, Tensor

MASK_INPUT = {"mask_error": 1, "fold_error": 2}


def keep_mask_bits(graph: Graph) -> Graph:
    """Insert `clamp_mask` after the producers of such outputs."""
    masks: dict[str, tuple[Tensor, Op]] = {}
    for op in graph.phase(Phase.BACKWARD):
        name = op.inputs[MASK_INPUT[op.kind]] if op.kind in MASK_INPUT else ""
        if name and graph[name].dtype == "int8" and _only_masks(graph, name):
            bits = Tensor(graph.fresh_name(f"{name}_mask"), (-(-graph[name].size // 8),), "uint8")
            bounds = {key: op.attrs[key] for key in ("act_min", "act_max")}
            masks[name] = (
                bits,
                Op("clamp_mask", f"{name}_clamp_mask", (name,), (bits.name,), bounds),
            )
    ops: list[Op] = []
    for op in graph.ops:
        position = MASK_INPUT.get(op.kind)
        if position is not None and op.inputs[position] in masks:
            inputs = list(op.inputs)
            inputs[position] = masks[inputs[position]][0].name
            op = replace(op, inputs=tuple(inputs))
        ops.append(op)
        ops.extend(masks[name][1] for name in op.outputs if name in masks)
    return graph.with_ops(ops, (tensor for tensor, _ in masks.values()))


def _only_masks(graph: Graph, name: str) -> bool:
    """Whether the backward pass reads `name` only as one mask, and so it need not be kept."""
    readers = [op for op in graph.consumers[name] if op.phase is Phase.BACKWARD]
    bounds = {(op.attrs.get("act_min"), op.attrs.get("act_max")) for op in readers}
    return len(bounds) == 1 and all(
        op.kind in MASK_INPUT and op.inputs[MASK_INPUT[op.kind]] == name for op in readers
    )
