"""Convolutions over real numbers, written from their definition, for gradient checks.

In and out: float64 arrays, NHWC with batch 1, weights as in tflite. Must not know: the package
under test.
"""

from __future__ import annotations

import numpy as np

from tests.support.tflite_writer import Array

Pair = tuple[int, int]


def conv2d(x: Array, w: Array, stride: Pair, dilation: Pair, padding: str) -> Array:
    """Weights (out, kh, kw, in)."""
    patches = _patches(x[0], w.shape[1:3], stride, dilation, padding)
    return np.asarray(np.einsum("yxijc,oijc->yxo", patches, w)[None])


def depthwise_conv2d(x: Array, w: Array, stride: Pair, dilation: Pair, padding: str) -> Array:
    """Weights (1, kh, kw, in * multiplier)."""
    patches = _patches(x[0], w.shape[1:3], stride, dilation, padding)
    repeated = np.repeat(patches, w.shape[3] // x.shape[3], axis=4)
    return np.asarray(np.einsum("yxijc,ijc->yxc", repeated, w[0])[None])


def _patches(
    x: Array, kernel: tuple[int, ...], stride: Pair, dilation: Pair, padding: str
) -> Array:
    """(out_h, out_w, kh, kw, channels)"""
    axes = []
    for size, taps, step, spread in zip(x.shape[:2], kernel, stride, dilation, strict=True):
        reach = (taps - 1) * spread + 1
        same = padding == "SAME"
        count = -(-size // step) if same else (size - reach) // step + 1
        before = max(0, (count - 1) * step + reach - size) // 2 if same else 0
        at = np.arange(count)[:, None] * step + np.arange(taps)[None] * spread - before
        axes.append((np.clip(at, 0, size - 1), (at >= 0) & (at < size)))
    (rows, rows_in), (columns, columns_in) = axes
    taken = x[rows[:, None, :, None], columns[None, :, None, :]]
    inside = rows_in[:, None, :, None] & columns_in[None, :, None, :]
    return np.where(inside[..., None], taken, 0.0)
