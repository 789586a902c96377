"""Where commands write: the answer on stdout, all else on stderr, files whole or not at all; and text that a
terminal shows as it is meant: bars, dashes and signs by their likes where the locale has no more than ASCII,
control characters of a user's text by their numbers."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO, cast

from planner.errors import InputError
from planner.reading.new_files import replace

if TYPE_CHECKING:
    from rich.console import Console

NARROWEST = 80
"""Columns. A narrower terminal breaks lines itself: tables made to fit cut names and figures."""


def stdout() -> Console:
    """Console for the answer: no colour with NO_COLOR or where stdout is no terminal."""
    return _console(sys.stdout)


def stderr() -> Console:
    """Console for all else."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    """A console at least `NARROWEST` wide: a terminal of no columns is one that nobody asked."""
    from rich.console import Console

    console = Console(file=file if file.isatty() else cast("TextIO", Unpadded(file)), highlight=False)
    console.width = max(console.width, NARROWEST)
    return console


class Unpadded:
    """A file that gets lines without the blanks that tables end in, which a pipe would show."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        """Write whole lines, as consoles do."""
        return self._file.write(ENDING_BLANKS.sub("", text))


ENDING_BLANKS: Final = re.compile(r"[ \t]+(?=\n)")


def print_json(told: object, indent: int | None = 1) -> None:
    """The answer as JSON, and nothing else, on stdout."""
    print(json.dumps(told, indent=indent))


def say(*lines: str) -> None:
    """Lines of the answer on stdout, with the control characters that a user's names may hold written out."""
    print(*map(visible, lines), sep="\n")


def write(path: str | Path, text: str) -> None:
    """A whole file of this text. Raises InputError."""
    with whole_file(path) as file:
        file.write(text)


def note(text: str) -> None:
    """A line for the reader's eye, on stderr."""
    print(visible(text), file=sys.stderr)


@contextmanager
def whole_file(path: str | Path) -> Iterator[TextIO]:
    """A file that appears under `path` complete, when the block ends well, or not at all.

    What is written is kept until then, and what was there stays; that it can be written is looked at first,
    before any work is done. Devices and pipes (`/dev/stdout`) are written directly. Raises InputError.
    """
    kept = io.StringIO()
    with whole_bytes(path) as file:
        yield kept
        file.write(kept.getvalue().encode())


@contextmanager
def whole_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """The same for what is no text."""
    path = Path(path)
    with refusing(path):
        direct = path.exists() and not path.is_file() and not path.is_dir()
        path = path if direct else path.resolve()
    kept = io.BytesIO()
    with refusing(path):
        if path.is_dir():
            raise IsADirectoryError(21, "is a directory")
        if not path.parent.exists():
            raise FileNotFoundError(2, "no such file or directory")
        if not path.parent.is_dir():
            raise NotADirectoryError(20, "not a directory")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise PermissionError(13, "permission denied")
    yield kept
    with refusing(path):
        if direct:
            with path.open("wb") as file:
                file.write(kept.getvalue())
        else:
            replace(path, kept.getvalue())


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """What the system says against writing `path` as an InputError."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"cannot write `{path}`: {reason}", hint="choose another file with -o") from error


LIKE: Final = {
    "·": "-", "×": "x", "–": "-", "—": "-", "…": "...", "→": "->", "≤": "<=", "≥": ">=", "²": "2", "³": "3",
    "█": "#", "▓": "=", "▒": "+", "░": ".", "µ": "u", "−": "-", "€": "EUR", "’": "'", "“": '"', "”": '"',
    "─": "-", "│": "|", "━": "-", "╭": "+", "╮": "+", "╰": "+", "╯": "+", "├": "+", "└": "+", "±": "+-",
    "▁": "_", "▂": ".", "▃": ":", "▄": "-", "▅": "=", "▆": "+", "▇": "*",  # with "#", the higher the fuller
    "▏": "|", "▎": "|", "▍": "|", "▌": "|", "▋": "#", "▊": "#", "▉": "#",
}  # fmt: skip


def _like(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that cannot be written: one like them, else a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(LIKE.get(c, "?") for c in text), error.end


def visible(text: str) -> str:
    """Text with its control characters written out: none acts on the terminal.

    >>> print(visible("\\x1b[31mred"))
    \\x1b[31mred
    >>> print(visible("a\\rb"))
    a\\rb
    """
    from planner.reading.documents import UNSEEN  # here, not above: `--help` needs none of it

    return UNSEEN.sub(lambda c: c[0].encode("unicode_escape").decode(), text)


def plain(stream: TextIO) -> None:
    """Let a stream whose encoding lacks characters write their likes in place of failing."""
    if isinstance(stream, io.TextIOWrapper) and "utf" not in (stream.encoding or "").lower():
        codecs.register_error("like", _like)
        stream.reconfigure(errors="like")
