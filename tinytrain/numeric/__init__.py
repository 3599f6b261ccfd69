"""Fixed-point arithmetic, quantization, error scales, random numbers: the numeric profile."""

PROFILE = "tt.int8.v1"
"""Version of the numbers (docs/numbers.md): a state saved under another one is refused."""
