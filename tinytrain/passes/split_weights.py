"""Keep only the trained input channels of a weight tensor in RAM; the rest is read from flash.

Differentiation makes a partly trained tensor a state as a whole. Here the state shrinks to the
slice that changes. `merge_weights` lays the slice over the frozen weights before the layer runs,
forward and, where an error goes through it, backward; the merged weights are arena memory that
lives as long as the layer runs. Where these merged weights hold the peak, a slower kernel reads
both parts; where there is none and merging costs more than it saves, the tensor stays a state.
The numbers stay the same. Source: DESIGN sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tinytrain.ir import Graph, Op, Phase, Role, Tensor
from tinytrain.ops.pointwise_split import SPLIT_KINDS, can_split

UPDATES = (
    "conv2d_update",
    "depthwise_conv2d_update",
    "fully_connected_update",
    "apply_weights",
)


@dataclass(frozen=True)
class _Split:
    """The weights' name, its trained channels, and the tensors that take its place."""

    channels: tuple[int, ...]
    frozen: Tensor
    trained: Tensor
    merged: dict[Phase, Tensor]


@dataclass(frozen=True)
class Exceptions:
    """Where weights are not merged: tensors that stay states as a whole, and operators (by name)
    whose kernel reads frozen weights and slice where they are."""

    whole: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


def split_weights(graph: Graph, exceptions: Exceptions | None = None) -> Graph:
    """The training graph with trained slices in place of partly trained tensors."""
    exceptions = exceptions or Exceptions()
    splits: dict[str, _Split] = {}
    for op in graph.ops:
        if op.kind in UPDATES and op.attrs.get("channels"):
            for name in op.inputs:
                changes = name in op.outputs and name not in exceptions.whole
                if changes and _is_read_forward(graph, name):
                    splits[name] = _split(graph, name, op.ints("channels"))
    ops = [new for op in graph.ops for new in _rewritten(op, splits, exceptions.apart)]
    tensors: list[Tensor] = []
    for split in splits.values():
        tensors += [split.frozen, split.trained, *split.merged.values()]
    return graph.with_ops(ops, tensors)


def split_where_it_saves(
    graph: Graph, finish: Callable[[Graph], Graph], live_bytes: Callable[[Graph], Sequence[int]]
) -> Graph:
    """The finished graph, split so that arena and states together are small.

    Args:
        graph: a training graph.
        finish: the passes that come after this one.
        live_bytes: bytes of the arena that are needed while each operator runs.
    """
    chosen = Exceptions()
    best = finish(split_weights(graph))
    live = live_bytes(best)
    while True:
        for option in _options(best, live, chosen):
            found = finish(split_weights(graph, option))
            found_live = live_bytes(found)
            if max(found_live) + _kept_bytes(found) < max(live) + _kept_bytes(best):
                chosen, best, live = option, found, found_live
                break
        else:
            return best


def _options(graph: Graph, live: Sequence[int], chosen: Exceptions) -> Iterator[Exceptions]:
    """What to try where merged weights are there at the peak.

    First, that all kernels which can read both parts do so wherever merged weights need more than
    anything else does; then, that a tensor at the peak stays whole. The weights of a depthwise
    layer, [1, kh, kw, c], must be split: its update takes all channels.
    """
    merges = {op.outputs[0]: op for op in graph.ops if op.kind == "merge_weights"}
    touched = [[n for n in (*op.inputs, *op.outputs) if n in merges] for op in graph.ops]
    others = max((n for n, names in zip(live, touched, strict=True) if not names), default=0)
    if max(live, default=0) <= others:
        return
    large = [name for n, names in zip(live, touched, strict=True) if n > others for name in names]
    readers = [op for name in large for op in graph.consumers[name] if can_split(op, graph)]
    if readers:
        yield replace(chosen, apart=chosen.apart.union(op.name for op in readers))
    for name in touched[max(range(len(live)), key=lambda time: live[time])]:
        frozen = graph[merges[name].inputs[0]]
        if frozen.shape[0] > 1:
            yield replace(chosen, whole=chosen.whole | {frozen.name})


def _kept_bytes(graph: Graph) -> int:
    kept = (t for t in graph.tensors.values() if t.role in (Role.STATE, Role.BUFFER))
    return sum(-(-t.nbytes // 4) * 4 for t in kept)


def _is_read_forward(graph: Graph, name: str) -> bool:
    """Whether a state of an update is the weights that a forward operator reads."""
    return any(op.phase is Phase.FORWARD for op in graph.consumers[name])


def _split(graph: Graph, name: str, channels: tuple[int, ...]) -> _Split:
    whole = graph[name]
    assert whole.data is not None
    data = whole.data[..., list(channels)].copy()
    quant = whole.q
    if quant.per_channel and quant.axis == len(whole.shape) - 1:  # a depthwise layer's channels
        quant = replace(quant, scale=tuple(quant.scale[c] for c in channels))
    trained = Tensor(
        graph.fresh_name(f"{name}_trained"), data.shape, "int8", Role.STATE, quant, data
    )
    merged = {
        phase: Tensor(
            graph.fresh_name(f"{name}_merged_{phase.value}"), whole.shape, "int8", quant=whole.quant
        )
        for phase in (Phase.FORWARD, Phase.BACKWARD)
    }
    rest = whole.data.copy()
    rest[..., list(channels)] = 0
    return _Split(channels, replace(whole, role=Role.CONST, data=rest), trained, merged)


def _rewritten(op: Op, splits: dict[str, _Split], apart: Collection[str]) -> Iterator[Op]:
    """The operator on the slice, or on both parts, or behind a merge that makes its weights."""
    if op.kind in UPDATES:
        names = {name: split.trained.name for name, split in splits.items()}
        if any(name in splits for name in op.inputs):
            op = replace(op, attrs={**op.attrs, "channels": ()})
        yield _renamed(op, names)
        return
    if op.name in apart:
        yield _on_both_parts(op, splits)
        return
    names = {}
    for name in op.inputs:
        if name in splits:
            split = splits[name]
            merged = split.merged[op.phase].name
            names[name] = merged
            yield Op(
                "merge_weights",
                f"{op.name}_merge_weights",
                (name, split.trained.name),
                (merged,),
                {"channels": split.channels},
                op.phase,
            )
    yield _renamed(op, names)


def _on_both_parts(op: Op, splits: dict[str, _Split]) -> Op:
    """The operator whose kernel reads frozen weights and slice."""
    (split,) = [splits[name] for name in op.inputs if name in splits]
    inputs = (*op.inputs, "") if len(op.inputs) == 2 else op.inputs  # the bias may be absent
    attrs = {**op.attrs, "channels": split.channels}
    kind = SPLIT_KINDS[op.kind]
    return replace(op, kind=kind, inputs=(*inputs, split.trained.name), attrs=attrs)


def _renamed(op: Op, names: dict[str, str]) -> Op:
    return replace(
        op,
        inputs=tuple(names.get(n, n) for n in op.inputs),
        outputs=tuple(names.get(n, n) for n in op.outputs),
    )
