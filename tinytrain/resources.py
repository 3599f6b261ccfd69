"""Where the data folders (templates, firmware, boards) are: in the installed package or the tree.

In: a folder's name. Out: its path. Must not know what is in the folders.
"""

from __future__ import annotations

from pathlib import Path

from tinytrain.errors import InternalError

_PACKAGE = Path(__file__).resolve().parent
_FOLDERS = ("templates", "firmware", "boards")


def data_dir(name: str) -> Path:
    """Return the folder `name` (one of templates, firmware, boards).

    The wheel carries the folders inside the package (``tinytrain/_data``); an editable install
    uses those at the repository's root.
    """
    if name not in _FOLDERS:
        raise InternalError("unknown-resource", "resources", f"no data folder named {name!r}")
    for path in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if path.is_dir():
            return path
    raise InternalError(
        "missing-resource",
        "resources",
        f"the data folder {name!r} is not installed",
        hint="reinstall tinytrain",
    )
