"""The layers a scheme speaks of: convolutions and fully connected layers, in order.

In: a forward graph. Out: `Layer` rows; the last one that feeds the output is the head.
Must not know what is trained.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinytrain.ir import Graph, Op

LAYER_KINDS = ("conv2d", "depthwise_conv2d", "fully_connected", "logits")


@dataclass(frozen=True)
class Layer:
    """A layer with weights: its index in order, its operator, and whether it is the head."""

    index: int
    op: Op
    is_head: bool

    @property
    def weights(self) -> str:
        """Name of the weight tensor."""
        return self.op.inputs[1]


def layers_of(graph: Graph) -> tuple[Layer, ...]:
    """All layers with weights in execution order. The head is the last one."""
    ops = [op for op in graph.ops if op.kind in LAYER_KINDS]
    return tuple(Layer(i, op, i == len(ops) - 1) for i, op in enumerate(ops))
