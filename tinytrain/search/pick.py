"""A scheme as a search speaks of it, and all that may be in one.

In: the layers of a graph. Out: `Pick` values, and their text as scheme files. The head is always
trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinytrain.ir import Graph
from tinytrain.train import SchemeTable
from tinytrain.train.layers import Layer, layers_of
from tinytrain.train.scheme import is_trained_whole

RATIOS = (0.125, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Pick:
    """Biases of the last layers before the head, and weights by layer index and ratio.

    Attributes:
        bias_last: how many layers' biases.
        weights: (layer index, ratio of the input channels), ascending; ratio 1 is all.
    """

    bias_last: int = 0
    weights: tuple[tuple[int, float], ...] = ()

    def with_weights(self, index: int, ratio: float) -> Pick:
        """The same with more weights trained."""
        kept = [(i, r) for i, r in self.weights if i != index]
        return replace(self, weights=tuple(sorted([*kept, (index, ratio)])))

    @property
    def table(self) -> SchemeTable:
        """As a scheme."""
        rows = [{"index": i} | ({"ratio": r} if r < 1 else {}) for i, r in self.weights]
        return SchemeTable(str(self), {"bias_last": self.bias_last, "layer": rows})

    def toml(self, comment: str = "") -> str:
        """The text of a scheme file.

        Args:
            comment: lines for people at its head.
        """
        lines = [f"# {line}" for line in comment.splitlines()]
        table = self.table.table
        lines.append(f"bias_last = {table['bias_last']}")
        for row in table["layer"]:
            lines += ["", "[[layer]]", *(f"{key} = {value:g}" for key, value in row.items())]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        parts = [f"bias:{self.bias_last}"] if self.bias_last else []
        parts += [f"w{i}:{r:g}" if r < 1 else f"w{i}" for i, r in self.weights]
        return " ".join(parts) or "head"


def options_of(graph: Graph) -> dict[int, tuple[float, ...]]:
    """Layer index -> the ratios that make a difference; the head is not among them."""
    return {layer.index: _ratios(layer, graph) for layer in layers_of(graph) if not layer.is_head}


def _ratios(layer: Layer, graph: Graph) -> tuple[float, ...]:
    """Ratios with different numbers of channels; a depthwise layer with a multiplier has one."""
    count = graph[layer.weights].shape[-1]
    if is_trained_whole(layer, graph):
        return (1.0,)
    found: dict[int, float] = {}
    for ratio in RATIOS:
        found[max(1, round(count * ratio))] = ratio
    found[count] = 1.0
    return tuple(sorted(found.values()))


def bias_counts(layers: int) -> tuple[int, ...]:
    """Numbers of biases to consider: doubling, and all."""
    counts = {layers}
    count = 1
    while count < layers:
        counts.add(count)
        count *= 2
    return tuple(sorted(c for c in counts if c > 0))


def presets_of(layers: int) -> dict[str, Pick]:
    """The presets as picks: name -> pick; `layers` counts those before the head."""
    found = {"head": Pick()}
    for count in bias_counts(layers):
        name = "all" if count == layers else str(count)
        found[f"bias:{name}"] = Pick(count)
    for count in range(1, layers):
        found[f"last:{count}"] = last(layers, count)
    if layers:
        found["full"] = last(layers, layers)
    return found


def last(layers: int, count: int) -> Pick:
    """Weights and biases of the last layers before the head."""
    return Pick(count, tuple((i, 1.0) for i in range(layers - count, layers)))


def spread(items: Sequence[str], count: int) -> list[str]:
    """At most `count` of them, evenly, first and last included; of one the last."""
    if len(items) <= count:
        return list(items)
    if count < 2:
        return list(items[-1:])
    steps = [round(i * (len(items) - 1) / (count - 1)) for i in range(count)]
    return [items[i] for i in dict.fromkeys(steps)]
