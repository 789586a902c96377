"""Output that a terminal shows as it is meant: bars, dashes and signs by their likes where the locale has
no more than ASCII; control characters of a user's text by their numbers."""

from __future__ import annotations

import codecs
import io
from typing import Final, TextIO

LIKE: Final = {
    "·": "-", "×": "x", "–": "-", "—": "-", "…": "...", "→": "->", "≤": "<=", "≥": ">=", "²": "2", "³": "3",
    "█": "#", "▓": "=", "▒": "+", "░": ".", "µ": "u", "−": "-", "€": "EUR", "’": "'", "“": '"', "”": '"',
    "─": "-", "│": "|", "━": "-", "╭": "+", "╮": "+", "╰": "+", "╯": "+", "├": "+", "└": "+", "▏": "|",
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
    """
    from planner.reading.documents import UNSEEN  # here, not above: `--help` needs none of it

    return UNSEEN.sub(lambda c: c[0].encode("unicode_escape").decode(), text)


def plain(stream: TextIO) -> None:
    """Let a stream whose encoding lacks characters write their likes in place of failing."""
    if isinstance(stream, io.TextIOWrapper) and "utf" not in (stream.encoding or "").lower():
        codecs.register_error("like", _like)
        stream.reconfigure(errors="like")
