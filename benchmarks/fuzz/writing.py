"""Values → the text of a YAML, JSON or CSV file, false ones, too: a `Raw` is written as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


class Raw(str):
    """Text that stands in the file without quotes: numbers that no library would write."""


def written(file: str, value: Any) -> bytes:
    """`value` as the bytes of a file of this name: bytes and text as they are, rows of cells as CSV."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        text = str(value)
    elif file.endswith(".csv"):
        text = "".join(",".join(map(str, row)) + "\n" for row in value)
    elif file.endswith(".json"):
        text = flow(value)
    else:
        text = "".join(block(value))
    return text.encode("utf-8", "surrogatepass")


def flow(value: Any) -> str:
    """JSON in one line.

    >>> flow({"a": [1, Raw("1e999")], "b": None})
    '{"a": [1, 1e999], "b": null}'
    """
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return json.dumps(value)


def block(value: Any, deep: int = 0) -> Iterator[str]:
    """Lines of YAML: a line a field, lists of scalars in one line.

    >>> print("".join(block({"a": [1, 2], "b": [{"c": "x", "d": {}}]})), end="")
    "a": [1, 2]
    "b":
      -
        "c": "x"
        "d": {}
    """
    before = "  " * deep
    if not isinstance(value, dict | list) or not value or _plain(value):
        yield f"{before}{flow(value)}\n"
        return
    for key, part in value.items() if isinstance(value, dict) else ((None, part) for part in value):
        head = f"{before}-" if key is None else f"{before}{json.dumps(str(key))}:"
        if not isinstance(part, dict | list) or not part or _plain(part):
            yield f"{head} {flow(part)}\n"
        else:
            yield f"{head}\n"
            yield from block(part, deep + 1)


def _plain(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(part, dict | list) for part in value)
