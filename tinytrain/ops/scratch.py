"""Scratch of the kernels that stage their operands as int16 (`firmware/`, files ``*_dsp.c``).

In: sizes of an operator. Out: how much is staged at a time, and the bytes that takes. The portable
kernels get the same scratch, so that generated code is the same for every board.
"""

from __future__ import annotations

BUDGET_BYTES = 8192
MAX_BLOCK = 32


def quads(terms: int) -> int:
    """Groups of four terms."""
    return -(-terms // 4)


def block_of(terms: int, rows: int, fixed_bytes: int) -> int:
    """Rows staged at a time: even, and as many as the budget allows.

    Args:
        terms: of each row.
        rows: that there are.
        fixed_bytes: of scratch beside the staged rows.
    """
    pairs = (BUDGET_BYTES - fixed_bytes) // (16 * quads(terms))
    return 2 * max(1, min(pairs, MAX_BLOCK // 2, -(-rows // 2)))


def matmul_scratch(terms: int, rows: int, gathered: bool) -> tuple[int, int]:
    """(block, scratch bytes) of a kernel that stages `block` rows and two filters.

    Args:
        gathered: whether two rows of bytes are collected before they are staged.
    """
    row_bytes = 8 * quads(terms)
    fixed = 2 * row_bytes + (row_bytes if gathered else 0)
    block = block_of(terms, rows, fixed)
    return block, fixed + block * row_bytes
