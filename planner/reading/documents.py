"""YAML and JSON files: plain values with the position of each, checked against a pydantic model.

`read` refuses what no form of ours can be (a directory, binary, over 10 MB, alias bombs, duplicate keys, …);
`validate` turns the model's complaints into one InputError: what was expected, where, and what is nearest.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from planner.errors import InputError
from planner.reading.yaml_nodes import MOST_DIGITS, Key, Node, YamlError, parse

MAX_BYTES = 10_000_000
STANDARD_INPUT = "standard input"
MANY_LINES = 1_000_000
"""From which on a text must have a character a line: each takes some 100 bytes and a microsecond."""


_ACTING = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_RETURN = re.compile(r"\r(?!\r*\n)")
UNSEEN = re.compile(f"{_ACTING.pattern}|{_RETURN.pattern}")
"""Characters that act on a terminal, turn the direction of what follows, or are halves of one: none shows. A
carriage return does that where no line ends: what follows is written over what stands there."""

Loc = tuple[Key, ...]


@dataclass(frozen=True)
class Document:
    """`data`: plain Python values; `path`: as the user wrote it, the file's name in messages.

    A part of a document is named by its `loc`: the keys and indices that lead there.
    """

    data: Any
    path: str
    text: str | None = field(default=None, repr=False)

    @cached_property
    def root(self) -> Node | None:
        """The document with positions; None where it came from no text."""
        if self.text is None:
            return None
        try:
            return parse(self.text)
        except YamlError:  # JSON that is no YAML, by some odd escape
            return None

    def position(self, loc: Loc = (), of_key: bool = False) -> str:
        """ "file:line:column" of the value at `loc`, or of its key; if absent, of what surrounds it."""
        node = self.root
        if node is None:
            return self.path
        at = (node.line, node.column)
        for step in loc:
            part = node.parts.get(step)
            if (
                part is None
            ):  # a step of the model's that the text doesn't have: a union's tag, a missing field
                continue
            at = node.keys[str(step)] if of_key and step in node.keys else (part.line, part.column)
            node = part
        return f"{self.path}:{at[0]}:{at[1]}"

    def where(self, loc: Loc = (), of_key: bool = False) -> str:
        """ "file:line:column, nodes[0].device" """
        dotted = dotted_path(loc)
        return f"{self.position(loc, of_key)}, {dotted}" if dotted else self.position(loc, of_key)

    def error(self, message: str, loc: Loc = (), hint: str | None = None, of_key: bool = False) -> InputError:
        """An InputError about the part at `loc`."""
        return InputError(message, self.where(loc, of_key), hint)


def dotted_path(loc: Loc) -> str:
    """How a part of a document is called.

    >>> dotted_path(("nodes", 0, "device"))
    'nodes[0].device'
    """
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).removeprefix(".")


def read(path: str | Path) -> Document:
    """Reads a YAML or JSON file (told apart by content). Raises InputError."""
    return read_text(decoded(read_bytes(path), str(path)), str(path))


def read_plain(path: Path) -> Any:
    """The plain values of a YAML file of our own, which needs no checks."""
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=False).load(path.read_text(encoding="utf-8"))


def read_text(text: str, path: str) -> Document:
    """Like `read` for text already in hand; `path` is what messages call it."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _visible(Document(_json(text), path, text))
        except (ValueError, RecursionError):
            pass  # YAML's flow style, or a slip: the other parser says where
    try:
        root = parse(text)
    except YamlError as error:
        raise InputError(error.message, f"{path}:{error.line}:{error.column}", error.hint) from None
    document = Document(root.value, path, text)
    document.__dict__["root"] = root  # what cached_property would compute again
    return _visible(document)


def _visible(document: Document) -> Document:
    """The document, where no name or text in it hides a control character behind a backslash. Raises
    InputError."""
    parts: list[tuple[Loc, Any]] = [((), document.data)] if "\\" in (document.text or "") else []
    while parts:
        loc, part = parts.pop()
        if isinstance(part, dict):
            parts += [((*loc, key), value) for key, value in part.items()]
        elif isinstance(part, list):
            parts += [((*loc, i), value) for i, value in enumerate(part)]
        names = [*map(str, part)] if isinstance(part, dict) else [part] if isinstance(part, str) else []
        if found := next(filter(None, map(UNSEEN.search, names)), None):
            raise document.error(f"a control character, U+{ord(found[0]):04X}, stands in the text", loc)
    return document


def kind_of(value: object) -> str:
    """A value as an error calls it: its kind, and itself where it is short.

    >>> kind_of(True), kind_of("80GB"), kind_of([1, 2]), kind_of(None)
    ('true', 'text "80GB"', 'a list', 'nothing')
    """
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "named fields"
    if isinstance(value, list | tuple):
        return "a list"
    shown = json.dumps(value, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= 60 else shown[:57] + '…"'
    return f"text {shown}" if isinstance(value, str) else shown


def read_bytes(path: str | Path, limit: int = MAX_BYTES, binary: bool = False) -> bytes:
    """A file that should hold text, or may be `binary`. Raises InputError: absent, a directory, too large,
    binary."""
    name, path = str(path), Path(path)
    try:
        if path.is_dir():
            raise InputError(f"`{name}` is a directory, not a file", name)
        with path.open("rb") as file:
            if stat.S_ISCHR(os.fstat(file.fileno()).st_mode):  # a terminal, or /dev/zero without an end
                limit = min(limit, MAX_BYTES)
            raw = file.read(limit + 1)
    except FileNotFoundError:
        raise InputError(f"no such file: {name}", name, _sibling_hint(path)) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(f"cannot read `{name}`: {getattr(error, 'strerror', None) or error}", name) from None
    _check_bytes(raw, name, limit, binary)
    return raw


def read_standard_input(limit: int = MAX_BYTES) -> bytes:
    """Read what is piped in. Raises InputError: closed, too large, binary."""
    try:
        raw = sys.stdin.buffer.read(limit + 1)
    except (AttributeError, OSError, ValueError):  # there is none, or it was closed
        raise InputError("standard input is closed", STANDARD_INPUT, "name a file, or pipe it in") from None
    _check_bytes(raw, STANDARD_INPUT, limit)
    return raw


def _check_bytes(raw: bytes, name: str, limit: int, binary: bool = False) -> None:
    """Raises InputError for what is too large or, unless it may be, binary."""
    if len(raw) > limit:
        raise InputError(f"`{name}` is larger than {limit // 1_000_000:,} MB", name)
    if b"\0" in raw and not binary:
        raise InputError(f"`{name}` is binary, not text", name)
    if not binary:
        refuse_blank(raw, name)


def refuse_blank(raw: bytes, name: str) -> None:
    """Raises InputError for a text of many lines that are blank in the mean."""
    lines = max(raw.count(b"\n"), raw.count(b"\r"))
    if lines > MANY_LINES and len(raw.translate(None, b" \t\r\n")) < lines:
        raise InputError(f"`{name}` is mostly blank: {lines:,} lines", name)


def decoded(raw: bytes, name: str, coloured: bool = False) -> str:
    """UTF-8, a byte order mark allowed; all lines may end in carriage returns. Raises InputError: not UTF-8,
    empty, control characters (a terminal's colours are let through where the text is `coloured`)."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(f"`{name}` is not UTF-8 text", f"{name}:{line}", "save it as UTF-8") from None
    if not text.strip():
        raise InputError(f"`{name}` is empty", name)
    if "\r" in text and "\n" not in text:
        text = text.replace("\r", "\n")
    if not coloured and (found := _ACTING.search(text) or ("\r" in text and _RETURN.search(text))):
        line, start = text.count("\n", 0, found.start()) + 1, text.rfind("\n", 0, found.start())
        where = f"{name}:{line}:{found.start() - start}"
        raise InputError(f"a control character, U+{ord(found[0]):04X}, stands in the text", where)
    return text


def _sibling_hint(path: Path) -> str | None:
    """The most similar file name beside the missing one."""
    from difflib import get_close_matches

    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return None
    close = get_close_matches(path.name, names, 1, 0.75)
    return f"did you mean `{path.with_name(close[0])}`?" if close else None


def _json(text: str) -> Any:
    """Strict JSON: no duplicate keys, no NaN, no infinity, no endless integer. Raises ValueError."""

    def refuse(_: str) -> NoReturn:
        raise ValueError

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(data := dict(items)) < len(items):
            raise ValueError
        return data

    def finite(number: str) -> float:
        if math.isinf(value := float(number)):
            raise ValueError
        return value

    def short(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            raise ValueError
        return int(digits)

    return json.loads(
        text, object_pairs_hook=pairs, parse_constant=refuse, parse_float=finite, parse_int=short
    )
