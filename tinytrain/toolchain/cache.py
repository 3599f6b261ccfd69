"""Where built things are kept between runs.

In: the environment. Out: folders. Must not know what is kept in them.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "TINYTRAIN_CACHE"


def cache_dir() -> Path:
    """Return the cache's root: $TINYTRAIN_CACHE, else the user's cache folder; it may not exist."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tinytrain"
