"""The memory of a training step: order of operators, live ranges, arena offsets, state layout."""

from tinytrain.memory.plan import Plan, plan
from tinytrain.memory.state_layout import StateLayout

__all__ = ["Plan", "StateLayout", "plan"]
