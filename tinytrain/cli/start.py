"""Where the process `tinytrain` begins: imports take a second, and Ctrl-C may come in it.

In: nothing. Out: the exit code of the command line. Must not import anything of the project before
interrupts are looked after.
"""

from __future__ import annotations

import sys
from importlib import import_module

INTERRUPTED = 130


def main() -> None:
    """Load the command line and run it."""
    try:
        command = import_module("tinytrain.cli.main").main
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    command()
