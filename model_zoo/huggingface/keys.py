"""Checked look-up in a Hugging Face config: text settings may be nested, null means absent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from planner.errors import InputError
from planner.reading.documents import Document, decoded, read_bytes

TEXT_SECTIONS = ("text_config", "llm_config", "language_config")
MAX_FILE_BYTES = 50_000_000
MAX_INTEGER = 2**31

REQUIRED: Final = object()


def load(file: Path) -> Document:
    """The JSON object in `file`. Raises InputError."""
    name = str(file)
    text = decoded(read_bytes(file, MAX_FILE_BYTES), name)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", f"{name}:{error.lineno}:{error.colno}") from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"not usable JSON: {error}", name) from None
    if not isinstance(data, dict):
        raise InputError(f"expected a JSON object, found {_kind(data)}", name)
    return Document(data, name, text)


class Keys:
    """A section of a config file. Look-ups try the nested text section first, then the top level."""

    def __init__(self, document: Document, path: str = "", part: Any = None, nested: bool = True) -> None:
        """The whole of a `document`, or the `part` of it that stands at `path`."""
        self.document, self.path = document, path
        self.data: dict[str, Any] = document.data if part is None else part
        self._scopes = [(path, self.data)]
        if nested:
            for section in TEXT_SECTIONS:
                if isinstance(self.data.get(section), dict):
                    self._scopes.insert(0, (section, self.data[section]))

    def find(self, *names: str) -> tuple[str, Any] | None:
        """(path, value) of the first of `names` that is there and not null."""
        for scope, data in self._scopes:
            for name in names:
                if data.get(name) is not None:
                    return (f"{scope}.{name}" if scope else name), data[name]
        return None

    def has(self, *names: str) -> bool:
        """Whether one of `names` is there and not null."""
        return self.find(*names) is not None

    def path_of(self, *names: str) -> str:
        """Where the first of `names` that is there stands; its own name where none is."""
        return (self.find(*names) or (names[0], None))[0]

    def integer(self, *names: str, default: Any = REQUIRED, low: int = 1) -> Any:
        """An integer of at least `low` under the first of `names` that is there; `default` may be None."""
        found = self.find(*names)
        if found is None:
            return self._missing(names, "an integer") if default is REQUIRED else default
        path, value = found
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= MAX_INTEGER:
            raise self.error(path, f"an integer of at least {low}", value)
        return value

    def number(self, *names: str, default: float | None = None) -> float:
        """A positive finite number."""
        found = self.find(*names)
        if found is None:
            return float(self._missing(names, "a number")) if default is None else default
        path, value = found
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MAX_INTEGER:
            raise self.error(path, "a positive number", value)
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """True or false."""
        found = self.find(*names)
        if found is None:
            return default
        if not isinstance(found[1], bool):
            raise self.error(found[0], "true or false", found[1])
        return found[1]

    def text(self, *names: str, default: str = "") -> str:
        """A string."""
        found = self.find(*names)
        if found is None:
            return default
        if not isinstance(found[1], str):
            raise self.error(found[0], "a string", found[1])
        return found[1]

    def items(self, name: str, kind: type | tuple[type, ...], length: int | None = None) -> list[Any]:
        """A list of `kind`, of at least `length` entries (more: the rest belongs to MTP layers)."""
        found = self.find(name)
        if found is None:
            return []
        path, value = found
        if not isinstance(value, list):
            raise self.error(path, "a list", value)
        for at, entry in enumerate(value):
            if not isinstance(entry, kind):
                raise self.error(f"{path}[{at}]", f"{_name(kind)} in every entry", entry)
        if length is not None and len(value) < length:
            raise InputError(f"expected an entry a layer ({length}), found {len(value)}", self.where(path))
        return value

    def section(self, name: str) -> Keys | None:
        """A nested object, looked up on its own."""
        found = self.find(name)
        if found is None:
            return None
        if not isinstance(found[1], dict):
            raise self.error(found[0], "an object", found[1])
        return Keys(self.document, found[0], found[1], nested=False)

    def sections(self, name: str, length: int) -> Iterator[Keys]:
        """The objects of a list with one entry a layer."""
        for at, entry in enumerate(self.items(name, dict, length)):
            yield Keys(self.document, f"{name}[{at}]", entry, nested=False)

    def where(self, path: str) -> str:
        """`file:line:column, key.path`, as errors name it."""
        steps = re.findall(r"\[(\d+)\]|([^.\[\]]+)", path)
        position = self.document.position(tuple(int(at) if at else key for at, key in steps))
        return f"{position}, {path}" if path else position

    def error(self, path: str, expected: str, found: object) -> InputError:
        """What was expected at `path` and what stands there."""
        return InputError(f"expected {expected}, found {_kind(found)}", self.where(path))

    def _missing(self, names: tuple[str, ...], expected: str) -> Any:
        others = f" (or {', '.join(f'`{n}`' for n in names[1:])})" if len(names) > 1 else ""
        hint = (
            "the config of a text model must state it; an adapter or a pipeline index is not a model config"
        )
        raise InputError(f"missing `{names[0]}`{others}: expected {expected}", self.where(self.path), hint)


def _name(kind: type | tuple[type, ...]) -> str:
    names = {int: "an integer", str: "a string", dict: "an object", bool: "true or false"}
    return " or ".join(names.get(k, k.__name__) for k in (kind if isinstance(kind, tuple) else (kind,)))


def _kind(value: object) -> str:
    """`value` as an error shows it: short."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    try:
        shown = repr(value)
    except ValueError:  # integers of thousands of digits refuse to be printed
        return "a huge integer"
    return shown if len(shown) <= 40 else shown[:37] + "..."
