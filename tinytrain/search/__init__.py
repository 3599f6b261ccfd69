"""Choose what to train under a budget: what a scheme may hold, the exact best under an additive
model of gains and bytes, and the order in which schemes are tried for real.

In: layers, callables that measure. Out: picks and their scores. It neither plans nor trains: who
calls it hands in how.
"""

from tinytrain.search.additive import Option, Point, pareto_front
from tinytrain.search.pick import Pick, options_of, presets_of
from tinytrain.search.trials import Score, Trials, halve

__all__ = [
    "Option",
    "Pick",
    "Point",
    "Score",
    "Trials",
    "halve",
    "options_of",
    "pareto_front",
    "presets_of",
]
