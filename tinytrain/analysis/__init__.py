"""Judgements over graphs that change nothing: invariants, cost, support, summaries."""

from tinytrain.analysis.cost import GraphCost, OpCost, graph_cost
from tinytrain.analysis.inspect import Summary, summarize
from tinytrain.analysis.support import SupportRow, support_rows, supported_page
from tinytrain.analysis.verify import verify

__all__ = [
    "GraphCost",
    "OpCost",
    "Summary",
    "SupportRow",
    "graph_cost",
    "summarize",
    "support_rows",
    "supported_page",
    "verify",
]
