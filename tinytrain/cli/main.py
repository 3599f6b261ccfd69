"""The command `tinytrain`: its sub-commands, and how errors become messages and exit codes.

In: the command line. Out: an exit code: 0, 1 (the user's input), 2 (usage), 3 (the environment
lacks a tool), 130 (interrupted). Must not know what the commands do.
"""

from __future__ import annotations

import difflib
import shutil
import sys
import textwrap
from typing import Any

import click

from tinytrain.cli import (
    bench,
    boards,
    compile,
    demo,
    doctor,
    emulate,
    flash,
    inspect,
    monitor,
    plan,
    search,
    simulate,
    state,
    train,
    verify,
)
from tinytrain.cli.output import print_json
from tinytrain.cli.start import INTERRUPTED
from tinytrain.errors import InputError, TinytrainError
from tinytrain.reader import UnsupportedError


class Commands(click.Group):
    """A group that knows the project's errors and suggests a command for a misspelt one."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line and end the process; no error of a user's making is a traceback."""
        given = args[0] if args else options.pop("args", None)
        arguments = list(sys.argv[1:] if given is None else given)
        as_json = "--json" in arguments
        options["standalone_mode"] = False
        try:
            code = super().main(arguments, *args[1:], **options)
        except TinytrainError as error:
            code = _report(error, as_json)
        except click.ClickException as error:
            code = _report_usage(error, as_json)
        except click.Abort:
            click.echo("interrupted", err=True)
            code = INTERRUPTED
        except OSError as error:
            code = _report(_file_error(error), as_json)
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a suggestion for an unknown name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if close and "Did you mean" not in error.message:
                message = f"{error.message} Did you mean {close[0]!r}?"
                raise click.UsageError(message, ctx) from error
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which one meets them, not of the alphabet."""
        del ctx
        return list(self.commands)


def _report(error: TinytrainError, as_json: bool) -> int:
    rows = error.rows if isinstance(error, UnsupportedError) else ()
    if as_json:
        document: dict[str, Any] = {**error.as_dict(), "exit_code": error.exit_code}
        if rows:
            document["operators"] = [
                {"index": row.index, "operator": row.operator, "reason": row.reason} for row in rows
            ]
        try:
            print_json({"error": document})
        except OSError as full:  # nobody takes what is printed, the error included
            click.echo(f"error: cannot write to stdout: {full.strerror}", err=True)
        return error.exit_code
    click.secho("error: ", fg="red", bold=True, err=True, nl=False)
    place = f" ({error.where})" if error.where else ""
    click.echo(f"{error.message}{place} [{error.code}]", err=True)
    if isinstance(error, UnsupportedError):
        click.echo(error.table(), err=True)
    if error.hint:
        click.secho("  hint: ", bold=True, err=True, nl=False)
        click.echo(_wrap(error.hint), err=True)
    return error.exit_code


def _report_usage(error: click.ClickException, as_json: bool) -> int:
    if as_json:
        fields = {"code": "usage", "stage": "cli", "message": error.format_message()}
        print_json({"error": {**fields, "where": "", "hint": "", "exit_code": error.exit_code}})
    else:
        error.show()
    return error.exit_code


def _wrap(hint: str) -> str:
    """Long lines broken, continued below the word "hint"."""
    width = max(40, min(100, shutil.get_terminal_size().columns) - 8)
    lines = [part for line in hint.splitlines() for part in textwrap.wrap(line, width) or [""]]
    return "\n        ".join(lines)


def _file_error(error: OSError) -> InputError:
    return InputError(
        "file-error",
        "cli",
        f"{error.strerror or error}",
        where=str(error.filename or ""),
        hint="check that the path exists and may be read or written",
    )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tinytrain", message="tinytrain %(version)s")
def main() -> None:
    """Train int8 networks on Cortex-M microcontrollers.

    From a pre-trained .tflite model to C firmware that goes on learning on the device, and a
    simulator that computes the same bits on this machine.

    \b
    Try it:            tinytrain demo
    A model of yours:  tinytrain inspect model.tflite
    """


for command in (
    demo.demo,
    doctor.doctor,
    boards.boards,
    inspect.inspect,
    verify.verify,
    plan.plan,
    search.search,
    simulate.simulate,
    compile.compile_,
    emulate.emulate,
    flash.flash,
    train.train,
    monitor.monitor,
    state.state,
    bench.bench,
):
    main.add_command(command)


if __name__ == "__main__":
    main()
