"""Places of a tree, and its texts with a word or sign lost, doubled, or another."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

PARTS = re.compile(r"[A-Za-z_]+|[0-9.]+|'[^']*'|[^\sA-Za-z0-9_.]")
SIGNS = (
    "and", "or", "not", "in", "is", "==", "!=", "<", "<=", "=", "(", ")", "[", "]", "+", "-", "*", "/",
    "**", "%", "null", "None", "True", "lambda: 0", "'", "1e999", "9" * 400, "0", "isl", "model", "x",
    ".", ",", ":", "$/h", "kW", "if", "else", "(" * 90, "not " * 300, "-" * 500, "\\", "\0", "#",
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All (holder, key or index) of a tree of dicts and lists."""
    for key, part in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(part, dict | list):
            yield from places(part)


def reworded(tree: Any, random: random.Random) -> Any:
    """A text with a word or sign of it lost, doubled, or another: conditions, budgets, names."""
    texts = (
        [(a, b) for a, b in places(tree) if isinstance(a[b], str)] if isinstance(tree, dict | list) else []
    )
    long = [place for place in texts if " " in place[0][place[1]]]
    if not texts:
        return tree
    holder, key = random.choice(long if long and random.random() < 0.7 else texts)
    parts = PARTS.findall(holder[key])
    at = random.randrange(len(parts) + 1)
    how = random.choice(("drop", "double", "insert", "insert", "replace", "replace", "swap"))
    if how in ("drop", "replace", "double"):
        parts[at : at + 1] = {
            "drop": [],
            "replace": [random.choice(SIGNS)],
            "double": parts[at : at + 1] * 2,
        }[how]
    elif how == "insert":
        parts.insert(at, random.choice(SIGNS))
    else:
        random.shuffle(parts)
    holder[key] = random.choice((" ", " ", "")).join(parts)
    return tree
