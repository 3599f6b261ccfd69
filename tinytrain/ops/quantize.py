"""QUANTIZE inside a graph (int8 -> int8, another scale), and why DEQUANTIZE is refused there.

The reader cuts both off at float borders of a model; what reaches these definitions lies inside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinytrain.errors import InternalError
from tinytrain.ir import Array, Graph, Op, Tensor
from tinytrain.ops.base import KernelCall, OpDef, Step
from tinytrain.ops.relu import Rescale


class Quantize(Rescale):
    """Change of scale and zero point."""

    kind = "quantize"
    tflite = "QUANTIZE"

    def ratio(self, x: Tensor, out: Tensor) -> float:
        """The ratio of the float32 scales in double precision."""
        return float(np.float32(x.q.scale0)) / float(np.float32(out.q.scale0))


class Dequantize(OpDef):
    """Change to float, which no operator inside a graph can take."""

    kind = "dequantize"
    tflite = "DEQUANTIZE"
    border_only = True

    def problems(self, op: Op, graph: Graph) -> list[str]:
        """Only at an output of the model, where it is cut off; inside, the float part begins."""
        del op, graph
        return ["the model turns to float32 here; only at an output can that be cut off"]

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """The input's."""
        return (graph[op.inputs[0]].shape,)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """Never reached: no graph holds it."""
        raise self._refused(op)

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """Never reached: no graph holds it."""
        raise self._refused(op)

    def _refused(self, op: Op) -> InternalError:
        return InternalError("float-inside", "ops", "DEQUANTIZE inside a graph", where=op.name)
