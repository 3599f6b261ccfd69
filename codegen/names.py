"""Names in generated C.

In: names of models, operators and tensors. Out: C identifiers. Must not know
what they stand for.
"""

from __future__ import annotations

import re

from tinytrain.errors import InputError
from tinytrain.ir.names import C_KEYWORDS, shortened

MAX_LENGTH = 40
_MODEL = re.compile(rf"[a-z][a-z0-9_]{{0,{MAX_LENGTH - 1}}}")
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
    words = shortened(words, MAX_LENGTH)
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
    return name in C_KEYWORDS or name in _HEADERS or name == "tt" or name.startswith("tt_")
