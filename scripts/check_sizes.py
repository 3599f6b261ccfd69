"""Check that files and functions stay small enough to be read in one go.

Limits: Python files 500 lines, functions 60; C files 400 lines, functions 80 lines and six
parameters. C is expected in the project's format: a function's braces stand in the first column.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON_FOLDERS = ("tinytrain", "codegen", "scripts", "tests")
C_FOLDERS = ("firmware", "tests")

PYTHON_FILE_LINES = 500
PYTHON_FUNCTION_LINES = 60
C_FILE_LINES = 400
C_FUNCTION_LINES = 80
C_PARAMETERS = 6

_C_NAME = re.compile(r"(\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*$", re.DOTALL)


def python_findings(name: str, text: str) -> Iterator[str]:
    """Yield what is too large in one Python file."""
    lines = text.count("\n")
    if lines > PYTHON_FILE_LINES:
        yield f"{name}: {lines} lines, at most {PYTHON_FILE_LINES}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > PYTHON_FUNCTION_LINES:
                yield (
                    f"{name}:{node.lineno}: {node.name} has {length} lines, "
                    f"at most {PYTHON_FUNCTION_LINES}"
                )


def c_findings(name: str, text: str) -> Iterator[str]:
    """Yield what is too large in one C file or header."""
    lines = text.splitlines()
    if len(lines) > C_FILE_LINES:
        yield f"{name}: {len(lines)} lines, at most {C_FILE_LINES}"
    for first, last, function, parameters in c_functions(lines):
        if last - first + 1 > C_FUNCTION_LINES:
            yield (
                f"{name}:{first}: {function} has {last - first + 1} lines, "
                f"at most {C_FUNCTION_LINES}"
            )
        if parameters > C_PARAMETERS:
            yield (
                f"{name}:{first}: {function} has {parameters} parameters, at most {C_PARAMETERS}"
            )


def c_functions(lines: list[str]) -> Iterator[tuple[int, int, str, int]]:
    """Yield (first line, last line, name, number of parameters) of each function body."""
    head: list[str] = []
    found: tuple[int, str, int] | None = None
    for number, line in enumerate(lines, start=1):
        if line == "{":
            match = _C_NAME.search("\n".join(head))
            if match:
                none = match[2].strip() in ("", "void")
                found = number - len(head), match[1], 0 if none else match[2].count(",") + 1
        elif line == "}" and found:
            yield found[0], number, found[1], found[2]
            found = None
        # what precedes the brace, up to the last line that ended something
        ends = not line or line[0] in "#{}" or line.rstrip().endswith((";", "*/"))
        head = [] if ends else [*head, line]


def main() -> int:
    """Print the findings; the exit code tells whether there are any."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    findings: list[str] = []
    for folder in PYTHON_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            findings += python_findings(str(path.relative_to(ROOT)), text)
    for folder in C_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            text = path.read_text(encoding="utf-8")
            findings += c_findings(str(path.relative_to(ROOT)), text)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
