"""pydantic's complaints in the reader's words: what was expected, what stands there, what is nearest."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from planner.errors import InputError, Misplaced, nearest, squash
from planner.reading.documents import Document, Loc, dotted_path, kind_of
from planner.reading.kinds import other_kind
from planner.reading.units import amount, converted, plain, unit_of

M = TypeVar("M", bound=BaseModel)

_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "named fields (`key: value`)",
    "model_type": "named fields (`key: value`)",
    "model_attributes_type": "named fields (`key: value`)",
}
_LIMITS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
MOST_LISTED = 5
"""Further errors named after the first."""


def validate(document: Document, model: type[M]) -> M:
    """`document` as a `model`, converting nothing: "8" or true never pass for a number. Raises InputError."""
    return validate_part(document, model, document.data, ())


def validate_part(document: Document, model: type[M], data: Any, at: Loc) -> M:
    """`data`, made from what stands at `at` of the document, as a `model`. Raises InputError."""
    if not isinstance(data, dict):
        raise document.error(f"expected named fields (`key: value`), got {kind_of(data)}", at)
    try:
        return model.model_validate_json(json.dumps(in_units(data)), strict=True)
    except ValidationError as error:
        if not at and (other := other_kind(data, model.__name__, document.path)):
            raise InputError(other[0], document.path, other[1]) from None
        raise explain(document, model, error, at) from None
    except RecursionError:
        raise document.error("nested too deep", at) from None


def in_units(data: Any, field: str = "") -> Any:
    """`data` with quantities that carry a unit ("10Gbit/s", "80GB") as numbers in the unit of their field."""
    if isinstance(data, dict):
        return {key: in_units(value, str(key)) for key, value in data.items()}
    if isinstance(data, list):
        return [in_units(value, field) for value in data]
    told = amount(data, field) if isinstance(data, str) else None
    if told is None:
        return data
    return int(told) if field in ("isl", "osl", "max_osl") and told == int(told) else told


def explain(document: Document, model: type[BaseModel], error: ValidationError, at: Loc = ()) -> InputError:
    """All complaints about the part at `at` as one error: the first in full, the others briefly.

    Unknown fields come first: what else is wrong is often their doing.
    """
    found = [_Complaint(document, model, each, at) for each in error.errors(include_url=False)]
    found.sort(key=lambda c: not c.unknown_field)
    first, others = found[0], found[1:]
    briefly = [f"{c.where}: {c.message}" for c in others[:MOST_LISTED]]
    if len(others) > MOST_LISTED:
        briefly.append(f"and {len(others) - MOST_LISTED} more")
    lines = ([first.hint] if first.hint else []) + [f"also wrong: {line}" for line in briefly]
    return InputError(first.message, first.where, "\n".join(lines) or None)


class _Complaint:
    """One of pydantic's errors, reworded."""

    def __init__(self, document: Document, model: type[BaseModel], error: Any, at: Loc) -> None:
        self.unknown_field = error["type"] == "extra_forbidden"
        cause = error.get("ctx", {}).get("error")
        inner = cause.loc if isinstance(cause, Misplaced) else ()
        loc = (*at, *error["loc"], *inner)
        if loc[-1:] == ("[key]",):  # of a mapping whose keys are words of a list
            error, loc = {**error, "type": "unknown_key"}, loc[:-1]
        loc = _without_tags(document.data, loc)
        self.where = document.where(loc, of_key=self.unknown_field or error["type"] == "unknown_key")
        known = fields_at(model, error["loc"][:-1])
        self.message, self.hint = reworded(error, loc, known)


def reworded(error: Any, loc: Loc, known: list[str]) -> tuple[str, str | None]:
    """(message, hint) of one pydantic error; `known`: the fields beside it."""
    kind, context, value = error["type"], error.get("ctx", {}), error.get("input")
    name = _called(loc)
    if kind == "extra_forbidden":
        line = converted(name, value, known)
        return f"unknown field `{name}`", f"write `{line}`" if line else _nearest_field(name, known)
    if kind == "unknown_key":
        return f"unknown field `{name}`", _nearest_literal(value, context)
    if kind == "missing":
        return f"`{name}` is missing", f"add `{name}:`"
    if kind == "literal_error":
        return f"`{name}` must be {context['expected']}, got {kind_of(value)}", _nearest_literal(
            value, context
        )
    if kind in _LIMITS:
        key, words = _LIMITS["greater_than" if _none(kind, context, value) else kind]
        context = {"gt": 0.0, **context}
        return f"`{name}` must be {words} {context[key]:g}, got {value}", None
    if kind in ("too_short", "too_long"):
        bound = context.get("min_length", context.get("max_length"))
        words = "at least" if kind == "too_short" else "at most"
        noun = "entry" if bound == 1 else "entries"
        return f"`{name}` must have {words} {bound} {noun}, got {context['actual_length']}", None
    if kind in _EXPECTED:
        return f"`{name}` must be {_EXPECTED[kind]}, got {kind_of(value)}", _value_hint(kind, loc, value)
    if kind == "value_error":
        return str(context.get("error", error["msg"])), None
    return f"`{name}`: {error['msg']}", None


def _called(loc: Loc) -> str:
    """What an error calls the part at `loc`: its field, of an entry of a list with its place there.

    >>> _called(("nodes", 0)), _called(("nodes", 0, "device")), _called(())
    ('nodes[0]', 'device', 'the document')
    """
    named = [i for i, step in enumerate(loc) if isinstance(step, str)]
    return dotted_path(loc[named[-1] if named else 0 :])[:60] or "the document"


def _none(kind: str, context: Any, value: object) -> bool:
    """Whether nothing or less stands where a tiny number is the least."""
    return (
        kind == "greater_than_equal"
        and 0 < context["ge"] < 1e-6
        and isinstance(value, int | float)
        and value <= 0
    )


def _nearest_field(name: str, known: list[str]) -> str | None:
    if not known:
        return None
    best = nearest(name, known, 1)[0]
    from difflib import SequenceMatcher

    if begun := [field for field in known if len(name) > 3 and field.startswith(f"{name}_")]:
        return f"did you mean {' or '.join(f'`{field}`' for field in begun)}?"
    close = SequenceMatcher(None, squash(name), squash(best)).ratio() >= 0.6
    listed = "known here: " + ", ".join(known)
    return f"did you mean `{best}`?" if close else listed


def _nearest_literal(value: object, context: Any) -> str | None:
    choices = [c.strip("'") for c in str(context["expected"]).replace(" or ", ", ").split(", ")]
    return f"did you mean `{nearest(value, choices, 1)[0]}`?" if isinstance(value, str) else None


def _value_hint(kind: str, loc: Loc, value: object) -> str | None:
    """Text or a fraction for a number: its unit and what to write; a number for text: quotes."""
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f'write "{value}" in quotes'
    if not kind.startswith(("int_", "float_")):
        return None
    if isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if not isinstance(value, str):
        return None
    name = next((s for s in reversed(loc) if isinstance(s, str)), "")
    unit = unit_of(name) or next((u for s in reversed(loc) if (u := unit_of(str(s)))), None)
    if (bare := plain(value)) is not None:
        return f"write {bare:g} without quotes or separators" + (f", in {unit}" if unit else "")
    return f"a plain number in {unit}" if unit else "a plain number"


def _without_tags(data: Any, loc: Loc) -> Loc:
    """`loc` without steps that the document doesn't have (tags of unions), its last step kept."""
    kept: list[str | int] = []
    for i, step in enumerate(loc):
        inside = (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int) and step < len(data)
        )
        if inside:
            data = data[step]
        if inside or i == len(loc) - 1:
            kept.append(step)
    return tuple(kept)


def fields_at(model: type[BaseModel], loc: Loc) -> list[str]:
    """Names of the fields that the part at `loc` of a `model` may have; empty where any key may stand."""
    at: list[Any] = [model]
    for step in loc:
        at = [inner for each in at for inner in _into(each, step)] or at  # or: a union's tag
    return [
        field.alias or name for each in at if _is_model(each) for name, field in each.model_fields.items()
    ]


def _into(annotation: Any, step: str | int) -> Iterator[Any]:
    """Types that stand at key or index `step` of a value of this type."""
    if _is_model(annotation):
        if step in annotation.model_fields:
            yield from _alternatives(annotation.model_fields[str(step)].annotation)
        elif "kind" in annotation.model_fields and step in get_args(
            annotation.model_fields["kind"].annotation
        ):
            yield annotation  # the tag chose this alternative
    elif get_origin(annotation) in (list, tuple) and isinstance(step, int):
        yield from _alternatives(get_args(annotation)[0])
    elif get_origin(annotation) is dict and isinstance(step, str):
        yield from _alternatives(get_args(annotation)[1])


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The types that a field's annotation allows, Annotated and unions opened."""
    if get_origin(annotation) is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from _alternatives(each)
    else:
        yield annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


__all__ = ["dotted_path", "explain", "fields_at"]
