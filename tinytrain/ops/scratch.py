"""Scratch of the kernels that stage their operands as int16 (`firmware/`, files ``*_dsp.c``).

In: sizes of an operator. Out: how much is staged at a time, and the bytes that takes. The portable
kernels get the same scratch, so that generated code is the same for every board.
"""

from __future__ import annotations

from tinytrain.ops.geometry import Window

BUDGET_BYTES = 8192
MAX_BLOCK = 64
MIN_BLOCK = 4  # where each block stages all weights anew


def quads(terms: int) -> int:
    """Groups of four terms."""
    return -(-terms // 4)


def block_of(terms: int, rows: int, fixed_bytes: int, least: int = 2) -> int:
    """Rows staged at a time: even, and as many as the budget allows.

    Args:
        terms: of each row.
        rows: that there are.
        fixed_bytes: of scratch beside the staged rows.
        least: rows that may exceed the budget, even.
    """
    pairs = (BUDGET_BYTES - fixed_bytes) // (16 * quads(terms))
    return 2 * min(max(least // 2, pairs), MAX_BLOCK // 2, -(-rows // 2))


def input_error_scratch(terms: int, taps: int, rows: int) -> tuple[int, int]:
    """(block, scratch bytes) of a convolution's input error.

    Args:
        terms: output channels, of each tap.
        rows: input positions.
    """
    row_bytes = 8 * quads(terms) * taps
    fixed = 4 * row_bytes + 4 * quads(terms)
    block = block_of(4 * quads(terms) * taps, rows, fixed, MIN_BLOCK)
    return block, fixed + block * (row_bytes + 8)


def matmul_scratch(terms: int, rows: int, gathered: bool) -> tuple[int, int]:
    """(block, scratch bytes) of a kernel that stages `block` rows and two filters.

    Args:
        gathered: whether two rows of bytes are collected before they are staged.
    """
    row_bytes = 8 * quads(terms)
    fixed = 2 * row_bytes + (row_bytes + 4 if gathered else 0)  # copied by the word
    block = block_of(terms, rows, fixed)
    return block, fixed + block * row_bytes


def update_scratch(positions: int, channels: int) -> tuple[int, int]:
    """(block, scratch bytes) of a convolution's update; (0, 0) where it would take too much.

    Args:
        channels: trained input channels, staged along with errors over all positions.
    """
    column_bytes = 8 * quads(positions)
    fixed = 4 * column_bytes + 4 * positions
    four = 4 * (column_bytes + 8)
    fours = min((BUDGET_BYTES - fixed) // four, quads(channels))
    return (4 * fours, fixed + fours * four) if fours > 0 else (0, 0)


PLANES = 4
MAX_BAND = 64


def planes_scratch(window: Window, width: int, height: int, stride: int) -> tuple[int, int]:
    """(band, scratch bytes) of a depthwise kernel that stages planes; (0, 0) if it cannot.

    Args:
        window: of the forward convolution.
        width, height: of the outputs that are made.
        stride: from one output's taps to the next one's.
    """
    kernel = window.kernel_w
    square = window.kernel_h == kernel and window.stride_h == window.stride_w
    if not square or kernel not in (3, 5, 7) or window.stride_h not in (1, 2):
        return 0, 0
    if window.dilation_h != 1 or window.dilation_w != 1:
        return 0, 0
    group = 4 if kernel == 3 or (kernel == 5 and stride == 1) else 2
    made = -(-width // group) * group
    row_bytes = 4 * PLANES * (((made - 1) * stride + kernel + 1) // 2)
    filters = 4 * PLANES * kernel * ((kernel + 1) // 2) * (2 if stride == 1 else 1)
    fixed = (kernel - stride) * row_bytes + filters
    each = stride * row_bytes + 4 * made
    band = max(1, min((BUDGET_BYTES - fixed) // each, height, MAX_BAND))
    return band, fixed + band * each
