"""What a C file consists of: itself and the files that it includes by name in quotes.

In: a C file, include folders. Out: the contents, as one digest for a cache's key. Much cheaper than
running the preprocessor. What is included in angle brackets comes with the compiler, whose version
stands for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+(?:"([^"\n]+)"|([A-Za-z_]))', re.MULTILINE)


def digest_of_unit(source: Path, include_dirs: Sequence[Path]) -> str | None:
    """A digest of all text that makes up a translation unit; where the files lie does not count.

    Returns:
        None where that cannot be told from the text: a file cannot be read, or a macro names
        what is included.
    """
    digest = hashlib.sha256()
    seen: set[Path] = set()
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            text = path.read_bytes()
        except OSError:
            return None
        digest.update(path.name.encode() + len(text).to_bytes(8, "little") + text)
        for match in _INCLUDE.finditer(text):
            if match.group(1) is None:
                return None
            found = _find(match.group(1).decode("utf-8", "replace"), path.parent, include_dirs)
            if found is not None:  # else a system header, or the compiler says that it is missing
                waiting.append(found)
    return digest.hexdigest()


def _find(name: str, here: Path, include_dirs: Sequence[Path]) -> Path | None:
    for folder in (here, *include_dirs):
        path = folder / name
        if path.is_file():
            return path
    return None
