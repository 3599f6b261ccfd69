"""What names of tensors and of generated C have in common.

In: texts. Out: identifiers that C and C++ take, each handed out once. Must not know what they name.
"""

from __future__ import annotations

from collections.abc import Iterable

C_KEYWORDS = frozenset(
    """alignas alignof and asm auto bool break case catch char class const continue default delete
    do double else enum extern false float for friend goto if inline int long main namespace new
    not operator or private protected public register restrict return short signed sizeof static
    struct switch template this throw true try typedef typename union unsigned virtual void
    volatile while xor""".split()
)


def shortened(text: str, length: int) -> str:
    """The end of a text of words and underscores, which tells layers apart, from a word on."""
    if len(text) <= length:
        return text
    tail = text[-length:]
    return tail[tail.find("_") + 1 :] if "_" in tail[:-8] else tail


class Names:
    """Hands out each name once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._count: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """`name`, or ``name_2`` and so on where it is taken."""
        candidate = name
        while candidate in self._taken:
            self._count[name] = self._count.get(name, 1) + 1
            candidate = f"{name}_{self._count[name]}"
        self._taken.add(candidate)
        return candidate
