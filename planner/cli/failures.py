"""What goes wrong, as the user sees it: what, where, what next; as JSON for `--json`; the exit code."""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import suppress

import typer

from planner.cli.output import visible
from planner.errors import InputError, MeshwrightError

USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]  # typer exports it under no public name
JSON_EXITS = {2, 3, 5}


def report(error: BaseException, as_json: bool) -> int:
    """Write `error` to stderr, and to stdout as JSON where a script asked for JSON; return the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if os.environ.get("MESHWRIGHT_DEBUG"):
        traceback.print_exception(error)
    told = as_told(error)
    with suppress(OSError):  # nobody reads it
        print(render(told), file=sys.stderr)
    if as_json and told.exit_code in JSON_EXITS:
        with suppress(OSError):  # nobody can be told there, and stderr has it
            print(json.dumps(told.as_json()))
            sys.stdout.flush()
    return told.exit_code


def is_unread(error: BaseException) -> bool:
    """Whether a command ended since nobody reads its answer any more. typer and rich make of that an exit by
    1."""
    cause = error.__context__ if isinstance(error, SystemExit) else error
    return isinstance(cause, BrokenPipeError)


def drop_unwritten() -> None:
    """Forget what standard streams do not take: Python would complain of it on leaving."""
    for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def as_told(error: BaseException) -> MeshwrightError:
    """The error in our own form: ours as it is, a mistake on the command line bad input, else unexpected."""
    if isinstance(error, MeshwrightError):
        return error
    if isinstance(error, USAGE_ERROR):
        return _usage(error)
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return InputError(
            f"the system refused: {reason[:1].lower()}{reason[1:]}", str(error.filename or "") or None
        )
    if isinstance(error, MemoryError):
        return InputError("not enough memory", hint="a smaller question, or a machine with more")
    message = f"unexpected {type(error).__name__}: {str(error) or 'no message'}"
    return MeshwrightError(message, hint="this is a bug; run again with MESHWRIGHT_DEBUG=1 for the traceback")


OUT_OF_RANGE = {
    "Input should be greater than or equal to ": "must be at least ",
    "Input should be less than or equal to ": "must be at most ",
}
"""How the parser tells that a value is out of its range, and how we do."""


def _usage(error: BaseException) -> InputError:
    """A mistake on the command line: an unknown option, a value that is not of the option's kind."""
    context, option = getattr(error, "ctx", None), getattr(error, "param", None)
    text = str(getattr(error, "message", error)).removeprefix("Value error, ").strip().rstrip(".")
    if option is None or not text:
        text = str(error.format_message() if hasattr(error, "format_message") else error).strip().rstrip(".")
    text = " ".join(text.split())  # a list of choices comes on lines of its own
    for theirs, ours in OUT_OF_RANGE.items():
        if option is not None and text.startswith(theirs):
            text = f"`{option.opts[0]}` {ours}{text.removeprefix(theirs)}"
    return InputError(
        text[:1].lower() + text[1:],
        where=f"{'/'.join(option.opts)} on the command line" if option is not None else "the command line",
        hint=f"see `{context.command_path if context else 'meshwright'} --help`",
    )


def render(error: MeshwrightError) -> str:
    """The error as text, with colour on a terminal.

    >>> print(render(InputError("unknown GPU `h100-sxn`", "c.yaml:4:13", "did you mean `h100-sxm`?")))
    error: unknown GPU `h100-sxn`
      at c.yaml:4:13
    hint: did you mean `h100-sxm`?
    """
    lines = [f"{_paint('error:', '1;31')} {visible(error.message)}"]
    if error.where:
        lines.append(f"  at {visible(error.where)}")
    if error.hint:
        lines.append(f"{_paint('hint:', '1;36')} {visible(error.hint)}")
    return "\n".join(lines)


def _paint(text: str, code: str) -> str:
    """`text` in an ANSI colour, where stderr shows colours."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
