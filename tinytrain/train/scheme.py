"""What is updated: the scheme.

In: a preset's name or a file (TOML, JSON), and the layers of a graph. Out: `Scheme`, one `Choice`
a trained layer. Source: DESIGN section 3. Must not know how anything is trained.

A scheme file:

    head = true                # default; weights and bias of the classifier
    bias_last = 20             # biases of the last 20 layers before the head; or "all"

    [[layer]]
    index = 24                 # in order, the first layer is 0; or: name = "conv2d_24"
    weights = true             # default
    bias = true                # default false
    channels = [0, 3, 5]       # trained input channels; or: ratio = 0.25 (largest weights first)

The same may be written in JSON, and either may hold a published configuration of MCUNetV3 instead
(see `published`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinytrain.errors import InputError, UsageError
from tinytrain.ir import Graph, Tensor
from tinytrain.train.layers import Layer, layers_of
from tinytrain.train.published import is_published, scheme_table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PRESETS = "head, bias:N, bias:all, last:N, full, none, auto, or a file (docs/schemes.md)"
_LAYER_KEYS = {"index", "name", "weights", "bias", "channels", "ratio"}
_FILE_KEYS = {"head", "bias_last", "layer"}


@dataclass(frozen=True)
class Choice:
    """What is trained of one layer; `channels` () means all input channels."""

    op: str
    weights: bool
    bias: bool
    channels: tuple[int, ...] = ()


@dataclass(frozen=True)
class Scheme:
    """A name for people, and the trained layers by operator name."""

    name: str
    choices: Mapping[str, Choice]


@dataclass(frozen=True)
class SchemeTable:
    """What a scheme file holds, without a file.

    Attributes:
        name: for people.
        table: see above; as TOML or JSON would give it.
    """

    name: str
    table: Mapping[str, Any]


def parse_scheme(given: str | SchemeTable, graph: Graph) -> Scheme:
    """Resolve a preset, a file or its content against a graph whose head is in place.

    Raises:
        UsageError: an unknown preset. InputError: a file that does not fit the graph.
    """
    layers = layers_of(graph)
    if not layers:
        raise InputError("no-layers", "train", "the model has no layer with weights to train")
    if isinstance(given, SchemeTable):
        return _from_table(given, given.name, layers, graph)
    text = given
    if text == "none":
        return Scheme("none", {})
    head, before = layers[-1], layers[:-1]
    chosen = {head.op.name: Choice(head.op.name, True, True)}
    preset, _, argument = text.partition(":")
    if text == "head":
        return Scheme(text, chosen)
    if text == "full":
        return Scheme(text, chosen | _choose(before, weights=True))
    if preset in ("bias", "last") and argument:
        if argument == "all" and preset == "bias":
            return Scheme(text, chosen | _choose(before, weights=False))
        count = _count(text, argument, len(before))
        return Scheme(text, chosen | _choose(before[-count:], weights=preset == "last"))
    path = Path(text)
    if path.suffix in (".toml", ".json") or _is_file(path):
        return _from_table(SchemeTable(path.name, _table(path)), text, layers, graph)
    if text == "auto":
        raise UsageError(
            "unresolved-scheme",
            "train",
            "the scheme auto has to be found first",
            hint="run `tinytrain search`, or tinytrain.auto.search, and take what it gives",
        )
    raise UsageError(
        "unknown-scheme", "train", f"unknown scheme {text!r}", hint=f"choose {PRESETS}"
    )


def is_trained_whole(layer: Layer, graph: Graph) -> bool:
    """Whether no channels of a layer may be chosen: it is depthwise with a multiplier."""
    count = graph[layer.weights].shape[-1]
    depthwise = layer.op.kind == "depthwise_conv2d"
    return depthwise and graph[layer.op.inputs[0]].shape[-1] != count


def largest_channels(
    weights: Tensor, count: int, among: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """The channels (last axis) with the largest weights by their squared sum, ascending.

    Args:
        weights: constant or state with data, [..., channels].
        count: how many.
        among: from these, ascending; all unless given.
    """
    assert weights.data is not None
    norms = np.sum(weights.data.astype(np.float64) ** 2, axis=tuple(range(weights.data.ndim - 1)))
    given = np.arange(len(norms)) if among is None else np.array(among)
    largest = given[np.argsort(-norms[given], kind="stable")[:count]]
    return tuple(sorted(int(c) for c in largest))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, for one
        return False


def _count(text: str, argument: str, limit: int) -> int:
    if not re.fullmatch("0*[1-9][0-9]{0,8}", argument):
        raise UsageError(
            "unknown-scheme", "train", f"unknown scheme {text!r}", hint=f"choose {PRESETS}"
        )
    if int(argument) > limit:
        raise InputError(
            "scheme-too-long",
            "train",
            f"scheme {text!r}, but the model has only {limit} layers before the head",
            hint="choose a smaller number, or full",
        )
    return int(argument)


def _choose(layers: tuple[Layer, ...], *, weights: bool) -> dict[str, Choice]:
    return {layer.op.name: Choice(layer.op.name, weights, True) for layer in layers}


def _from_table(given: SchemeTable, where: str, layers: tuple[Layer, ...], graph: Graph) -> Scheme:
    table = given.table
    if is_published(table):
        table = scheme_table(table, lambda message: _bad(where, message))
    unknown = set(table) - _FILE_KEYS
    if unknown:
        raise _bad(where, f"unknown keys {sorted(unknown)}; known are {sorted(_FILE_KEYS)}")
    head, before = layers[-1], layers[:-1]
    chosen: dict[str, Choice] = {}
    if _flag(where, table, "head", True):
        chosen[head.op.name] = Choice(head.op.name, True, True)
    last = table.get("bias_last", 0)
    if last == "all":
        last = len(before)
    if not isinstance(last, int) or isinstance(last, bool) or not 0 <= last <= len(before):
        raise _bad(where, f'bias_last must be 0 to {len(before)}, or "all"')
    chosen |= _choose(before[len(before) - last :], weights=False)
    rows = table.get("layer", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _bad(where, "write each trained layer as a [[layer]] table")
    named: set[str] = set()
    for row in rows:
        choice = _from_row(where, row, layers, graph)
        if choice.op in named:
            raise _bad(where, f"layer {choice.op} is listed twice")
        named.add(choice.op)
        earlier = chosen.get(choice.op)
        bias = choice.bias or (earlier is not None and earlier.bias)
        chosen[choice.op] = replace(choice, bias=bias)
    if not any(choice.weights or choice.bias for choice in chosen.values()):
        raise _bad(where, "nothing is trained")
    return Scheme(given.name, chosen)


def _table(path: Path) -> Mapping[str, Any]:
    """The file's content."""
    is_json = path.suffix == ".json"
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors may add a mark
        table = json.loads(text) if is_json else tomllib.loads(text)
    except OSError as error:
        raise InputError(
            "scheme-unreadable",
            "train",
            f"cannot read the scheme: {error.strerror}",
            where=str(path),
        ) from error
    except (ValueError, RecursionError) as error:  # a decoding error is a ValueError
        kind = "JSON" if is_json else "TOML"
        raise _bad(str(path), f"not a {kind} file: {error}") from error
    if not isinstance(table, dict):
        raise _bad(str(path), "not a table")
    return table


def _from_row(
    where: str, row: Mapping[str, Any], layers: tuple[Layer, ...], graph: Graph
) -> Choice:
    unknown = set(row) - _LAYER_KEYS
    if unknown:
        raise _bad(
            where, f"unknown keys {sorted(unknown)} of a layer; known are {sorted(_LAYER_KEYS)}"
        )
    layer = _find(where, row, layers)
    weights = _flag(where, row, "weights", True)
    channels = _channels(where, row, layer, graph)
    if channels and not weights:
        raise _bad(where, f"layer {layer.op.name}: channels without weights")
    return Choice(layer.op.name, weights, _flag(where, row, "bias", False), channels)


def _find(where: str, row: Mapping[str, Any], layers: tuple[Layer, ...]) -> Layer:
    index, name = row.get("index"), row.get("name")
    if isinstance(index, int) and not isinstance(index, bool) and name is None:
        if 0 <= index < len(layers):
            return layers[index]
        raise _bad(where, f"layer index {index} is not 0 to {len(layers) - 1}")
    if isinstance(name, str) and index is None:
        for layer in layers:
            if name in (layer.op.name, layer.weights, *layer.op.outputs):
                return layer
        raise _bad(where, f"no layer named {name!r}; see: tinytrain inspect")
    raise _bad(where, "each layer needs either an index (a number) or a name")


def _channels(where: str, row: Mapping[str, Any], layer: Layer, graph: Graph) -> tuple[int, ...]:
    """The trained input channels, ascending; () for all."""
    which = f"layer {layer.op.name}"
    if "channels" not in row and "ratio" not in row:
        return ()
    if "channels" in row and "ratio" in row:
        raise _bad(where, f"{which}: give channels or ratio, not both")
    weights = graph[layer.weights]
    count = weights.shape[-1]
    if is_trained_whole(layer, graph):
        raise _bad(
            where,
            f"{which}: a depthwise convolution with a multiplier is trained whole or not at all",
        )
    if "ratio" in row:
        ratio = row["ratio"]
        if not isinstance(ratio, (int, float)) or isinstance(ratio, bool) or not 0 < ratio <= 1:
            raise _bad(where, f"{which}: ratio must be above 0 and at most 1")
        chosen = largest_channels(weights, max(1, round(count * ratio)))
        return () if len(chosen) == count else chosen
    given = row["channels"]
    if not isinstance(given, list) or not given or not all(type(c) is int for c in given):
        raise _bad(where, f"{which}: channels must be a list of integers")
    if len(set(given)) != len(given) or not all(0 <= c < count for c in given):
        raise _bad(where, f"{which}: channels must be different and 0 to {count - 1}")
    return () if len(given) == count else tuple(sorted(given))


def _flag(where: str, row: Mapping[str, Any], key: str, default: bool) -> bool:
    value = row.get(key, default)
    if not isinstance(value, bool):
        raise _bad(where, f"{key} must be true or false")
    return value


def _bad(where: str, message: str) -> InputError:
    return InputError("bad-scheme", "train", message, where=where)
