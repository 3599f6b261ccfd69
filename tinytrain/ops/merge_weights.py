"""MERGE_WEIGHTS: frozen weights from flash with the trained input channels from RAM laid over them.

In: all weights as read, and the trained slice. Out: weights as the layer's kernel reads them, an
activation that lives while the layer runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinytrain.ir import Array, Graph, Op
from tinytrain.ops.base import KernelCall, OpDef, Step


class MergeWeights(OpDef):
    """Inputs: frozen [..., in_c], trained [..., k]; attribute `channels`: where the k belong."""

    kind = "merge_weights"

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """As the frozen weights."""
        return (graph[op.inputs[0]].shape,)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Copy all, then replace the trained channels."""
        del graph, step
        merged = inputs[0].copy()
        merged[..., list(op.ints("channels"))] = inputs[1]
        return (merged,)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """`tt_merge_weights`."""
        frozen, trained = graph[op.inputs[0]], graph[op.inputs[1]]
        return KernelCall(
            "tt_merge_weights",
            {
                "rows": frozen.size // frozen.shape[-1],
                "in_c": frozen.shape[-1],
                "trained_channels": trained.shape[-1],
                "channels": np.array(op.ints("channels"), np.uint16),
            },
            {"frozen": op.inputs[0], "trained": op.inputs[1], "output": op.outputs[0]},
        )
