"""Run the commands of docs/board.md in order, and write what they print into the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "board.md"
COMMAND = re.compile(r"^    (tinytrain [^\n]*)\n\n```\n(.*?)```\n", re.MULTILINE | re.DOTALL)


def run(command: str, folder: Path) -> str:
    """What a command prints, in a folder; a page whose commands fail is no page."""
    words = [sys.executable, "-m", "tinytrain.cli.main", *shlex.split(command)[1:]]
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


def label(line: str) -> str:
    """What stands before the value: the words up to two spaces, or to a colon."""
    return re.split(r"  |:", line)[0]


def shown(before: str, output: str) -> str:
    """The output as the page shows it: whole, or only the lines around its ``...``."""
    if "...\n" not in before:
        return output.replace("\n\n", "\n")
    lines = {label(line): line for line in output.splitlines()}
    kept = [line if line == "..." else lines[label(line)] for line in before.splitlines()]
    return "\n".join(kept) + "\n"


def refresh(page: str, folder: Path) -> str:
    """The page with what its commands print in a fresh folder, which they leave full."""
    example = [sys.executable, "-m", "tinytrain.demo", "example"]
    subprocess.run(example, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)

    def fill(match: re.Match[str]) -> str:
        text = match.group(0)
        fresh = shown(match.group(2), run(match.group(1), folder))
        return text.replace(f"```\n{match.group(2)}```", f"```\n{fresh}```")

    return COMMAND.sub(fill, page)


def main() -> int:
    """Write the page."""
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(refresh(PAGE.read_text("utf-8"), Path(folder)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
