"""Output where the terminal or the locale has no more than ASCII: bars, dashes and signs by their likes."""

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


def plain(stream: TextIO) -> None:
    """Let a stream whose encoding lacks characters write their likes in place of failing."""
    if isinstance(stream, io.TextIOWrapper) and "utf" not in (stream.encoding or "").lower():
        codecs.register_error("like", _like)
        stream.reconfigure(errors="like")
