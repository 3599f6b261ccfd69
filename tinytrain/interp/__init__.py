"""The NumPy definition of every number."""

from tinytrain.interp.interpreter import Interpreter, mean_squares

__all__ = ["Interpreter", "mean_squares"]
