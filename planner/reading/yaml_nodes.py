"""YAML text → plain values, each with its line and column.

Built from the parser's events rather than the library's loader: aliases are then counted before they expand,
cycles, duplicate keys, tags and infinities are seen where they stand, and no nesting exhausts the stack.
Scalars follow YAML 1.2's core schema (`yes` is text, `0o17` octal), keys are always text, and `<<` merges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

MAX_VALUES = 100_000
"""Most values a document may hold with its aliases expanded (parsing takes some 30 µs a value)."""
MAX_DEPTH = 64
MOST_DIGITS = 400
"""Of an integer, in whatever base: Python writes none of more than 4,300."""

LONG = 50_000
"""Characters from which on a text of ASCII is read by the parser in C: all else alike, it puts an empty value
a column further left."""

SLIPS = (ValueError, IndexError, AttributeError, TypeError, AssertionError, KeyError, RecursionError)
"""The library's own, on broken escapes and directives."""

Key = str | int

_PLAIN = re.compile(r"[\n\x20-\x7e]*")

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(\.inf|\.Inf|\.INF|Infinity)|\.nan|\.NaN|\.NAN|NaN")
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_CORE_TAGS = {f"tag:yaml.org,2002:{t}" for t in ("str", "int", "float", "bool", "null", "map", "seq")}


class YamlError(ValueError):
    """The text cannot be used; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.line, self.column, self.hint = message, line, column, hint


@dataclass
class Node:
    """One value: where it starts (from 1), its parts by key or index, its values expanded, its depth."""

    line: int
    column: int
    value: Any = None
    parts: dict[Key, Node] = field(default_factory=dict)
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)  # where each key of a mapping stands
    size: int = 1
    height: int = 0
    open: bool = False


TABS = "lines are indented by spaces: put some in the place of the tab"


def parse(text: str) -> Node:
    """The one document in `text`. Raises YamlError."""
    root = _quickly(text) if len(text) > LONG and _PLAIN.fullmatch(text) else None
    return root or _built(_events(text))


def _built(events: Iterator[Any]) -> Node:
    """The one document of these events. Raises YamlError."""
    builder = _Builder()
    for event in events:
        builder.take(event)
    if builder.root is None:
        raise YamlError("the file is empty", 1, 1, "it must hold a YAML or JSON document")
    return builder.root


def _quickly(text: str) -> Node | None:
    """The document by the parser in C, sixteen times as fast; None where that finds anything wrong: the other
    one's messages are those that are told. Raises YamlError."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return _built(YAML(typ="safe").parse(text))
    except (YAMLError, *SLIPS):
        return None


def _events(text: str) -> Iterator[Any]:
    """ruamel's parse events, its errors turned into ours."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = error.problem or error.context
        hint = TABS if "'\\t'" in str(problem) else None
        raise YamlError(f"not valid YAML: {problem}", line, column, hint) from None
    except YAMLError as error:  # the reader's: a character that YAML forbids
        before = text[: getattr(error, "position", 0)]
        column = len(before) - (before.rfind("\n") + 1) + 1
        raise YamlError("not valid YAML: forbidden character", before.count("\n") + 1, column) from None
    except YamlError:
        raise
    except SLIPS:
        raise YamlError("not valid YAML", 1, 1) from None


class _Builder:
    """Consumes events and keeps the stack of open collections."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self._stack: list[_Frame] = []
        self._anchors: dict[str, Node] = {}
        self._total = 0

    def take(self, event: Any) -> None:
        kind = type(event).__name__.removesuffix("Event")
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if kind in ("SequenceStart", "MappingStart"):
            self._open(event, Node(line, column, [] if kind == "SequenceStart" else {}))
        elif kind in ("SequenceEnd", "MappingEnd"):
            self._place(self._close(), adds=1)
        elif kind == "Scalar":
            _refuse_tag(event, line, column)
            node = Node(line, column, _scalar(event, line, column))
            self._name(event, node)
            self._place(node, adds=1, scalar=event)
        elif kind == "Alias":
            node = self._aliased(event, line, column)
            self._place(node, adds=node.size)
        elif kind == "DocumentStart" and self.root is not None:
            raise YamlError(
                "a second document begins here", line, column, "put each document in a file of its own"
            )

    def _open(self, event: Any, node: Node) -> None:
        _refuse_tag(event, node.line, node.column)
        node.open = True
        self._name(event, node)
        self._stack.append(_Frame(node))
        self._check_depth(node)

    def _close(self) -> Node:
        frame = self._stack.pop()
        frame.merge()
        node = frame.node
        node.open = False
        node.size = 1 + sum(part.size for part in node.parts.values())
        node.height = 1 + max((part.height for part in node.parts.values()), default=0)
        return node

    def _name(self, event: Any, node: Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node

    def _aliased(self, event: Any, line: int, column: int) -> Node:
        target = self._anchors.get(event.anchor)
        if target is None:
            raise YamlError(
                f"alias `*{event.anchor}` has no anchor `&{event.anchor}` before it", line, column
            )
        if target.open:
            raise YamlError(f"alias `*{event.anchor}` contains itself", line, column)
        return replace(target, line=line, column=column)

    def _place(self, node: Node, adds: int, scalar: Any = None) -> None:
        """Puts a finished value, which adds so many to the expanded document, where it belongs."""
        self._total += adds
        if self._total > MAX_VALUES:
            message = f"the document expands to more than {MAX_VALUES:,} values"
            hint = "identical nodes can be written once with `count:`"
            raise YamlError(message, node.line, node.column, hint)
        self._check_depth(node)
        if self._stack:
            self._stack[-1].add(node, scalar)
        else:
            self.root = node

    def _check_depth(self, node: Node) -> None:
        if len(self._stack) + node.height > MAX_DEPTH:
            raise YamlError(f"nested more than {MAX_DEPTH} deep", node.line, node.column)


@dataclass
class _Frame:
    """A list or mapping still open; `key` is the mapping's key that waits for its value."""

    node: Node
    key: str | None = None
    key_at: tuple[int, int] = (0, 0)
    merging: bool = False
    merged: list[Node] = field(default_factory=list)

    def add(self, node: Node, scalar: Any) -> None:
        """Takes the next value; `scalar` is its event where it was written as one here."""
        if isinstance(self.node.value, list):
            self.node.parts[len(self.node.value)] = node
            self.node.value.append(node.value)
        elif self.merging:
            self.merging = False
            self.merged += _mappings(node)
        elif self.key is None:
            self._take_key(node, scalar)
        else:
            self.node.parts[self.key], self.node.keys[self.key] = node, self.key_at
            self.node.value[self.key] = node.value
            self.key = None

    def _take_key(self, node: Node, scalar: Any) -> None:
        if isinstance(node.value, list | dict):
            raise YamlError("a key must be plain text", node.line, node.column)
        key: str = scalar.value if scalar is not None and not isinstance(node.value, str) else str(node.value)
        if scalar is not None and scalar.implicit[0] and key == "<<":
            self.merging = True
            return
        if key in self.node.value:
            first_line = self.node.keys[key][0]
            hint = f"it stands on line {first_line} already"
            raise YamlError(f"key `{key[:60]}` is given twice", node.line, node.column, hint)
        self.key, self.key_at = key, (node.line, node.column)

    def merge(self) -> None:
        """Fills in keys of `<<` mappings; the mapping's own keys and earlier merges win."""
        for source in self.merged:
            for key, value in source.value.items():
                if key not in self.node.value:
                    self.node.value[key] = value
                    self.node.parts[key], self.node.keys[key] = source.parts[key], source.keys[key]


def _mappings(node: Node) -> list[Node]:
    """What `<<` may hold: a mapping, or a list of them."""
    found = list(node.parts.values()) if isinstance(node.value, list) else [node]
    for each in found:
        if not isinstance(each.value, dict):
            raise YamlError("`<<` merges mappings only", each.line, each.column)
    return found


def _refuse_tag(event: Any, line: int, column: int) -> None:
    tag = event.tag
    if tag is not None and str(tag) not in _CORE_TAGS and str(tag) != "!":
        shown = str(tag).replace("tag:yaml.org,2002:", "!!")[:60]
        raise YamlError(f"tag `{shown}` is not allowed", line, column, "plain values only: drop the tag")


def _scalar(event: Any, line: int, column: int) -> str | int | float | bool | None:
    """A scalar's value; quoted, block and !!str scalars are text."""
    text: str = event.value
    if not event.implicit[0] and (event.tag is None or str(event.tag) in ("!", "tag:yaml.org,2002:str")):
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_FINITE.fullmatch(text):
        raise YamlError(
            f"`{text}` is not a finite number", line, column, "write a number, or leave the field out"
        )
    if len(text) > MOST_DIGITS and _INT.fullmatch(text):
        raise YamlError(f"a number of more than {MOST_DIGITS} digits", line, column)
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise YamlError(f"`{text}` is too large a number", line, column)
        return value
    return text
