"""Readable, unique, C-safe names for tensors.

In: names as converters write them. Out: identifiers of at most MAX_LENGTH characters. Must not
know tensors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_LENGTH = 48

# parts of a path that say nothing: the model's own scope, and how a variable was fetched
_SCOPE = re.compile(r"(model|functional|sequential)(_\d+)?")
_NOISE = frozenset({"ReadVariableOp", "resource", "read"})
_PREFIX = "serving_default_"
_C_KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while""".split()
)


def clean(name: str, fallback: str) -> str:
    """A C identifier that resembles `name`, or `fallback` where nothing of it can be kept.

    Of TFLite's ``a/b;a/c`` (operators fused into one) the first counts; what converters add goes.
    """
    first = name[:1024].split(";")[0].removesuffix(":0").removeprefix(_PREFIX)
    parts = first.split("/")
    if len(parts) > 1 and _SCOPE.fullmatch(parts[0]):
        del parts[0]
    kept = [part for part in parts if part not in _NOISE] or parts
    text = re.sub(r"[^A-Za-z0-9]+", "_", "_".join(kept)).strip("_")
    if len(text) > MAX_LENGTH:
        # the end tells layers apart; start it at a word where possible
        tail = text[-MAX_LENGTH:]
        text = tail[tail.find("_") + 1 :] if "_" in tail[:-8] else tail
    if not re.search(r"[A-Za-z]", text):
        return fallback
    if text[0].isdigit() or text in _C_KEYWORDS:
        return f"t_{text}"
    return text


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
