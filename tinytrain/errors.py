"""The one error base of the project: a code, the stage, where it happened, and what to do next.

In: nothing. Out: exception classes that the command line turns into a message and an exit code
(1 the user's input, 2 usage, 3 the environment lacks a tool). Must not know any other room.
"""

from __future__ import annotations

from typing import ClassVar


class TinytrainError(Exception):
    """An error that a user can act on.

    Args:
        code: short stable identifier in kebab case, e.g. ``"unsupported-operator"``.
        stage: the room that refused, e.g. ``"reader"``.
        message: what is wrong, one sentence.
        where: file, operator or field concerned ("" if there is none).
        hint: what to do next ("" if nothing can be said).
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self, code: str, stage: str, message: str, *, where: str = "", hint: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.stage = stage
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{self.stage}: {self.message}{place} [{self.code}]{hint}"

    def as_dict(self) -> dict[str, str]:
        """The fields as plain strings, for ``--json``."""
        return {
            "code": self.code,
            "stage": self.stage,
            "message": self.message,
            "where": self.where,
            "hint": self.hint,
        }


class InputError(TinytrainError):
    """The model, the data, the scheme or the board file is at fault."""

    exit_code = 1


class UsageError(TinytrainError):
    """The command was called with options that do not go together."""

    exit_code = 2


class ToolError(TinytrainError):
    """A tool is missing in the environment, or failed."""

    exit_code = 3


class InternalError(TinytrainError):
    """A stage handed on something that a later check refuses: a bug of this project."""

    exit_code = 1
