"""Benchmarks: instructions of models and of single layers, counted in the emulator."""

from tinytrain.bench.counts import compare_counts, read_counts, write_counts
from tinytrain.bench.models import MODELS, Count, bench_model

__all__ = ["MODELS", "Count", "bench_model", "compare_counts", "read_counts", "write_counts"]
