"""The intermediate representation: tensors, operators, graphs, and their text form."""

from tinytrain.ir.graph import Array, Attr, Graph, Op, Phase, Role, Tensor, format_graph

__all__ = ["Array", "Attr", "Graph", "Op", "Phase", "Role", "Tensor", "format_graph"]
