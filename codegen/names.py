"""Names in generated C.

In: names of models, operators and tensors. Out: C identifiers, each handed out once. Must not know
what they stand for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tinytrain.errors import InputError

MAX_LENGTH = 40
_MODEL = re.compile(rf"[a-z][a-z0-9_]{{0,{MAX_LENGTH - 1}}}")
_C_KEYWORDS = frozenset(
    """alignas alignof and asm auto bool break case catch char class const continue default delete
    do double else enum extern false float for friend goto if inline int long main namespace new
    not operator or private protected public register restrict return short signed sizeof static
    struct switch template this throw true try typedef typename union unsigned virtual void
    volatile while xor""".split()
)
# The model's header is `<name>.h`; these would hide a header of the C library or of the platform.
_HEADERS = frozenset(
    """arduino assert complex ctype errno features fenv float inttypes iso646 limits locale malloc
    math memory pthread sched semaphore setjmp signal spi stdalign stdarg stdatomic stdbool stddef
    stdint stdio stdlib stdnoreturn string strings tgmath threads time uchar unistd wchar wctype
    wire""".split()
)


def identifier(text: str) -> str:
    """A lower-case C identifier that resembles `text`, at most MAX_LENGTH characters."""
    words = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    if len(words) > MAX_LENGTH:
        tail = words[-MAX_LENGTH:]
        words = tail[tail.find("_") + 1 :] if "_" in tail[:-8] else tail
    if not words or words[0].isdigit():
        words = f"t_{words}".rstrip("_")
    return words[:MAX_LENGTH]


def model_name(wanted: str | None, fallback: str) -> str:
    """The name of a model's files and symbols: `wanted`, or one made of `fallback`.

    Raises:
        InputError: `wanted` cannot be one.
    """
    if wanted is None:
        made = identifier(fallback)
        return f"{made[: MAX_LENGTH - 6]}_model" if _reserved(made) else made
    if not _MODEL.fullmatch(wanted) or _reserved(wanted):
        raise InputError(
            "bad-name",
            "codegen",
            f"{wanted!r} cannot be the name of a model's C files and symbols",
            where="name",
            hint="use lower-case letters, digits and _, starting with a letter, no C keyword, no "
            "header of the C library, nothing that starts with tt_",
        )
    return wanted


def _reserved(name: str) -> bool:
    return name in _C_KEYWORDS or name in _HEADERS or name == "tt" or name.startswith("tt_")


class Names:
    """Hands out each identifier once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def unique(self, text: str) -> str:
        """`text`, or ``text_2`` and so on where it is taken."""
        candidate, count = text, 1
        while candidate in self._taken:
            count += 1
            candidate = f"{text}_{count}"
        self._taken.add(candidate)
        return candidate
