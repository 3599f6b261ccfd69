"""Readable, C-safe names for tensors.

In: names as converters write them. Out: identifiers of at most MAX_LENGTH characters. Must not
know tensors.
"""

from __future__ import annotations

import re

from tinytrain.ir.names import C_KEYWORDS, shortened

MAX_LENGTH = 48

# parts of a path that say nothing: the model's own scope, and how a variable was fetched
_SCOPE = re.compile(r"(model|functional|sequential)(_\d+)?")
_NOISE = frozenset({"ReadVariableOp", "resource", "read"})
_PREFIX = "serving_default_"


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
    text = shortened(text, MAX_LENGTH)
    if not re.search(r"[A-Za-z]", text):
        return fallback
    if text[0].isdigit() or text in C_KEYWORDS:
        return f"t_{text}"
    return text
