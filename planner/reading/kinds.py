"""Which of our documents a file is, by the fields that only that one has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Kind:
    """A document in words, `read_as` the models that read it, fields of which one file has all of a set, and
    the command that takes it."""

    words: str
    read_as: tuple[str, ...]
    fields: tuple[frozenset[str], ...]
    command: str


def _all_of(*sets: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(fields.split()) for fields in sets)


KINDS: Final = (
    Kind("plans of several models", ("Several",), _all_of("models plans proof"), "meshwright check {}"),
    Kind("a plan", ("Plan",), _all_of("replicas proof", "problem replicas"), "meshwright check {}"),
    Kind("a sweep", ("Sweep",), _all_of("base vary"), "meshwright sweep {} -o results.jsonl"),
    Kind("a cluster file", ("Cluster",), _all_of("nodes"), "meshwright plan {} --model NAME -o plan.json"),
    Kind(
        "a workload",
        ("Workload", "Listed"),
        _all_of("buckets", "isl osl", "slo", "traffic", "models"),
        "meshwright plan --gpus 8xH100 --model NAME --workload {}",
    ),
)
"""The first whose fields a file has is what it is."""


def other_kind(data: Any, model: str, path: str) -> tuple[str, str] | None:
    """What a document is that cannot be read as a `model`, and the command that takes it; None where it is
    none that is known, or the one that is wanted.

    >>> other_kind({"nodes": []}, "Plan", "lab.yaml")
    ('this is a cluster file, not a plan', 'meshwright plan lab.yaml --model NAME -o plan.json')
    >>> other_kind({"nodes": [], "lnks": []}, "Cluster", "lab.yaml")
    """
    wanted = next((kind for kind in KINDS if model in kind.read_as), None)
    if not isinstance(data, Mapping) or wanted is None:
        return None
    keys = {str(key) for key in data}
    found = next((kind for kind in KINDS if any(fields <= keys for fields in kind.fields)), None)
    if found is None or found is wanted:
        return None
    return f"this is {found.words}, not {wanted.words}", found.command.format(path)
