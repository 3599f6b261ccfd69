"""What the next thing to give up of a scheme would save, by planning the smaller schemes.

In: a training graph with its plan. Out: `Candidate` values, the largest saving first, each with the
content of a scheme file that does without. It knows nothing of accuracy: `auto` measures that.

A handful of schemes are planned, each in full: the weights of the layers that hold the most
(states, and what the peak holds for their update) given up, or half of their channels; and the
earliest trained layer, or the earlier half of them, frozen. The head is never given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tinytrain.ir import Graph, Role
from tinytrain.memory import Plan, memory_map
from tinytrain.passes.fold_pad import fold_pad
from tinytrain.pipeline import Prepared, prepare_graph
from tinytrain.train import SchemeTable, attach_loss, parse_scheme
from tinytrain.train.layers import Layer, layers_of
from tinytrain.train.scheme import Choice, is_trained_whole, largest_channels

WEIGHTED_LAYERS = 2
"""Layers whose weights are put to the question; each costs two plans."""

Choices = dict[str, Choice]


@dataclass(frozen=True)
class Candidate:
    """A part of the scheme, and what SRAM is saved without it.

    Attributes:
        what: the part, for people.
        saved_bytes: of SRAM in all; negative if the plan without it takes more.
        saved_arena_bytes, saved_state_bytes: of the arena; of trained states and batch buffers.
        scheme: the content of a scheme file (JSON) without the part.
    """

    what: str
    saved_bytes: int
    saved_arena_bytes: int
    saved_state_bytes: int
    scheme: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return dict(vars(self))


def advise(prepared: Prepared) -> tuple[Candidate, ...]:
    """The candidates, largest saving first; none if only the head is trained, or nothing.

    The plans are made without samples, which change scales and no sizes, and without the exact
    search.

    Raises:
        TinytrainError: as the stages say.
    """
    training = prepared.training
    forward = attach_loss(fold_pad(prepared.model), training.options, {})
    layers = layers_of(forward)
    choices = dict(parse_scheme(training.scheme, forward).choices)
    found = []
    seen = [choices]
    for what, smaller in _smaller(prepared.plan, forward, layers, choices):
        if smaller and smaller not in seen:
            seen.append(smaller)
            scheme = _document(layers, smaller)
            found.append(_compare(what, scheme, prepared.plan, _plan(prepared, scheme)))
    return tuple(sorted(found, key=lambda c: -c.saved_bytes))


def _smaller(
    plan: Plan, forward: Graph, layers: tuple[Layer, ...], choices: Choices
) -> Iterator[tuple[str, Choices]]:
    """The schemes to plan, with what each gives up."""
    trained = [
        layer
        for layer in layers
        if not layer.is_head
        and (choice := choices.get(layer.op.name)) is not None
        and (choice.weights or choice.bias)
    ]
    weighted = [layer for layer in trained if choices[layer.op.name].weights]
    at_peak = {
        name: holder.piece.nbytes
        for holder in memory_map(plan).holders
        for name in holder.piece.names
    }
    weighted.sort(key=lambda layer: (-_held_bytes(plan.graph, layer, at_peak), layer.index))
    for layer in weighted[:WEIGHTED_LAYERS]:
        choice = choices[layer.op.name]
        stays = ", its bias stays" if choice.bias else ""
        yield (
            f"weights of {_name(layer)}{stays}",
            _with(choices, replace(choice, weights=False, channels=())),
        )
        channels = choice.channels or tuple(range(forward[layer.weights].shape[-1]))
        half = len(channels) // 2
        if half and not is_trained_whole(layer, forward):
            kept = largest_channels(forward[layer.weights], half, channels)
            yield (
                f"channels of {_name(layer)}, {len(channels)} to {half}",
                _with(choices, replace(choice, channels=kept)),
            )
    if trained:
        first = trained[0]
        part = "all" if choices[first.op.name].weights else "bias"
        yield f"{part} of {_name(first)}, the earliest", _without(choices, trained[:1])
    half = len(trained) // 2
    if half > 1:
        yield (
            f"all of the {half} earliest of {len(trained)} layers",
            _without(choices, trained[:half]),
        )


def _name(layer: Layer) -> str:
    return f"layer {layer.index} ({layer.op.name})"


def _with(choices: Choices, choice: Choice) -> Choices:
    """The same with another choice for a layer; none if it trains nothing."""
    changed = choices | {choice.op: choice}
    return {name: c for name, c in changed.items() if c.weights or c.bias}


def _without(choices: Choices, layers: list[Layer]) -> Choices:
    gone = {layer.op.name for layer in layers}
    return {name: choice for name, choice in choices.items() if name not in gone}


def _held_bytes(graph: Graph, layer: Layer, at_peak: Mapping[str, int]) -> int:
    """States and buffers of a layer's weights, and what its update uses of the peak."""

    def own(name: str) -> bool:
        return name == layer.weights or name.startswith(f"{layer.weights}_")

    kept = sum(
        tensor.nbytes
        for tensor in graph.tensors.values()
        if tensor.role in (Role.STATE, Role.BUFFER) and own(tensor.name)
    )
    used = {name for op in graph.ops if any(map(own, op.outputs)) for name in op.inputs}
    return kept + sum(at_peak.get(name, 0) for name in used)


def _document(layers: tuple[Layer, ...], choices: Choices) -> dict[str, Any]:
    """The content of a scheme file with exactly these choices."""
    rows = []
    head = False
    for layer in layers:
        choice = choices.get(layer.op.name)
        if choice is None:
            continue
        if layer.is_head and choice.weights and choice.bias and not choice.channels:
            head = True
            continue
        row: dict[str, Any] = {"index": layer.index, "weights": choice.weights, "bias": choice.bias}
        if choice.channels:
            row["channels"] = list(choice.channels)
        rows.append(row)
    return {"head": head, "layer": rows}


def _plan(prepared: Prepared, scheme: Mapping[str, Any]) -> Plan:
    training = replace(prepared.training, scheme=SchemeTable("smaller", scheme))
    return prepare_graph(prepared.model, training).plan


def _compare(what: str, scheme: Mapping[str, Any], plan: Plan, smaller: Plan) -> Candidate:
    arena = plan.arena_bytes - smaller.arena_bytes
    state = _kept_bytes(plan) - _kept_bytes(smaller)
    return Candidate(what, arena + state, arena, state, scheme)


def _kept_bytes(plan: Plan) -> int:
    return plan.state.state_bytes + plan.state.buffer_bytes
