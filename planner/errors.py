"""Errors a user can act on: what is wrong, where, and what to do next. Each class carries its exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher

INTERRUPTED_EXIT = 130
"""What a command that Ctrl-C ended exits with, as in any shell."""

UNREAD_EXIT = 141
"""What a command exits with whose reader has left (`plan | head -3`): 128 + SIGPIPE, as in any shell."""


class MeshwrightError(Exception):
    """Base of all errors that end a command with one clear message instead of a traceback."""

    exit_code = 1
    code = "error"

    def __init__(self, message: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint

    def __str__(self) -> str:
        lines = [self.message]
        if self.where:
            lines.append(f"  at {self.where}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, dict[str, str | None]]:
        """The form that `--json` prints: {"error": {"code", "message", "where", "hint"}}."""
        return {"error": {"code": self.code, "message": self.message, "where": self.where, "hint": self.hint}}


class InputError(MeshwrightError):
    """The input cannot be used: exit 2. `where` is `file:line:column, path.in.document` when it is known."""

    exit_code = 2
    code = "bad_input"


@contextmanager
def placed(where: str) -> Iterator[None]:
    """In this block an InputError that knows no place is one of `where`."""
    try:
        yield
    except InputError as error:
        error.where = error.where or where
        raise


class Misplaced(ValueError):
    """What a validator of a whole document raises: `loc` leads to the part that is wrong."""

    def __init__(self, message: str, *loc: str | int) -> None:
        super().__init__(message)
        self.loc = loc


class Infeasible(MeshwrightError):
    """Proven: nothing in the searched space meets what was asked. `hint` is the smallest change that
    would."""

    exit_code = 3
    code = "infeasible"


LONGER = "--time-limit with more seconds"
"""What to do about an OutOfTime."""


class OutOfTime(MeshwrightError):
    """No plan was found, in the time limit or at all, and that there is none is not proven: exit 5."""

    exit_code = 5
    code = "time_limit"


def squash(name: str) -> str:
    """Spelling that doesn't matter, removed: case, `-`, `_`, blanks, dots and `/` (contracts.md, Spelling).

    >>> squash("Llama-3.1 70B") == squash("llama_31/70b")
    True
    """
    return "".join(c for c in name.lower() if c.isalnum())


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The `count` spellings of `known` nearest to `name`, best first: those of the same letters in another
    order before all.

    >>> nearest("h100-sxn", ["a100-sxm", "h100-sxm", "h100-pcie", "t4"])
    ['h100-sxm', 'a100-sxm', 'h100-pcie']
    >>> nearest("rtx-4900", ["rtx-4060", "rtx-4080", "rtx-4090"], 2)
    ['rtx-4090', 'rtx-4060']
    """
    wanted = squash(name)

    def distance(word: str) -> tuple[bool, float]:
        ratio = SequenceMatcher(None, wanted, word).ratio()
        return sorted(word) != sorted(wanted), -ratio

    return sorted(known, key=lambda k: distance(squash(k)))[:count]
