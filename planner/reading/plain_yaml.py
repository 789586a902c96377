"""YAML files of ours → plain values, fast: a cold command spends its time on little else.

The library's loader asks of every scalar what it might be, and takes six times as long. Ours hold mappings,
lists, numbers, words and quoted text; no tags, anchors or dates. (What users write goes through
`planner/reading/yaml_nodes.py`.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

_WORDS = {"": None, "null": None, "~": None, "true": True, "false": False}


def read_plain(path: Path) -> Any:
    """The document in the file."""
    return plain(path.read_text(encoding="utf-8"))


def plain(text: str) -> Any:
    """The document in `text`.

    >>> plain("a: {1: 2.5, b: [true, '3', 1e-3]}")
    {'a': {1: 2.5, 'b': [True, '3', 0.001]}}
    """
    from ruamel.yaml import YAML

    events = YAML(typ="safe", pure=False).parse(text)
    return next(_value(event, events) for event in events if hasattr(event, "anchor"))


def _value(event: Any, events: Iterator[Any]) -> Any:
    """The value that starts with `event`; its parts are taken from `events`."""
    kind = type(event).__name__
    if kind == "ScalarEvent":
        return _scalar(event.value) if event.implicit[0] else event.value
    if kind == "SequenceStartEvent":
        return [_value(part, events) for part in _until("SequenceEndEvent", events)]
    return {_value(key, events): _value(next(events), events) for key in _until("MappingEndEvent", events)}


def _until(end: str, events: Iterator[Any]) -> Iterator[Any]:
    while type(event := next(events)).__name__ != end:
        yield event


def _scalar(text: str) -> Any:
    if text[:1] in "0123456789+-.":
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                pass
    return _WORDS.get(text, text)
