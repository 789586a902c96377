"""Documents of several models from their JSON, and the one plan that a command is to look at."""

from __future__ import annotations

from pathlib import Path

from planner.errors import InputError, nearest
from planner.plans.schema import Plan
from planner.plans.schema.several import Several
from planner.reading.documents import Document
from planner.reading.validation import validate


def is_several(document: Document) -> bool:
    """Whether a document holds plans of several models."""
    return isinstance(document.data, dict) and document.data.get("kind") == "several"


def from_document(document: Document) -> Several:
    """All plans of a document. Raises InputError."""
    return validate(document, Several)


def named(path: str | Path) -> tuple[str, str | None]:
    """A file, and the model that is named behind it.

    >>> named("plan.json#qwen3-32b"), named("plan.json")
    (('plan.json', 'qwen3-32b'), ('plan.json', None))
    """
    text = str(path)
    if "#" not in text or Path(text).exists():
        return text, None
    file, _, model = text.rpartition("#")
    return file, model


def picked(several: Several, path: str, model: str | None) -> Plan:
    """The plan of one model. Raises InputError where none is named, or one that is not there."""
    names = [demand.model for demand in several.models]
    if model is None:
        text = f"`{path}` holds plans of {len(names)} models, and one is needed here"
        raise InputError(text, path, f"name one behind the file: {path}#{names[0]}")
    if model not in names:
        near = nearest(model, names, 1)[0]
        hint = f"did you mean `{near}`? models: {', '.join(names)}"
        raise InputError(f"`{path}` has no plan of `{model}`", path, hint)
    return several.plans[names.index(model)]
