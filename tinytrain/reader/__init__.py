"""`.tflite` files -> Graph."""

from tinytrain.reader.read import read
from tinytrain.reader.refusal import UnsupportedError

__all__ = ["UnsupportedError", "read"]
