"""YAML that people wrote for other programs: all documents of a text as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import InputError
from planner.imports.limits import Values, check_size


def load_all(text: str, name: str = "") -> list[Any]:
    """The documents in `text`. Raises InputError with the line where it is no YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    check_size(text, name)
    try:
        values = Values(name)
        for event in YAML(typ="safe", pure=True).parse(text):
            values.take(event, event.start_mark.line + 1)
        return [x for x in YAML(typ="safe", pure=True).load_all(text) if x is not None]
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise InputError(f"no YAML: {error.problem}", where) from None
    except (YAMLError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise InputError(f"no YAML: {(str(error).splitlines() or ['not readable'])[0]}", name) from None


def load(text: str, name: str = "") -> Any:
    """The first document, None where there is none."""
    return next(iter(load_all(text, name)), None)


def named(path: str, files: Mapping[str, str]) -> dict[str, Any]:
    """A configuration file that the same text writes or that lies beside it; nothing where there is none."""
    name = path.rsplit("/", 1)[-1]
    text = next((body for file, body in files.items() if file.rsplit("/", 1)[-1] == name), None)
    told = load(text) if text is not None else {}
    return told if isinstance(told, dict) else {}
