"""The memory of a training step: order of operators, live ranges, arena offsets, state layout."""

from tinytrain.memory.plan import Plan, plan
from tinytrain.memory.report import MemoryMap, memory_map
from tinytrain.memory.state_layout import StateLayout
from tinytrain.memory.svg_map import render_svg
from tinytrain.memory.text_map import render_text

__all__ = [
    "MemoryMap",
    "Plan",
    "StateLayout",
    "memory_map",
    "plan",
    "render_svg",
    "render_text",
]
