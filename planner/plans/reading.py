"""Plans from their JSON, as `plan -o` wrote it or as someone edited it by hand."""

from __future__ import annotations

from pathlib import Path

from planner.errors import InputError
from planner.plans import several
from planner.plans.schema import Plan
from planner.plans.schema.several import Several
from planner.reading.documents import Document, Loc, read
from planner.reading.validation import validate, validate_part


def read_plan(path: str | Path) -> Plan:
    """The plan in a file, its embedded problem read as strictly as the rest.

    Of a file with plans of several models the one that is named behind it, `plan.json#MODEL`. Raises
    InputError with file:line:column.
    """
    file, model = several.named(path)
    document = read(file)
    if several.is_several(document):
        return several.picked(read_all(document), file, model)
    if model is not None:
        raise InputError(f"`{file}` holds the plan of one model", file, f"leave out `#{model}`")
    return from_document(document)


def read_any(path: str | Path) -> Plan | Several:
    """What a file holds: a plan, or plans of several models. Raises InputError."""
    file, model = several.named(path)
    document = read(file)
    if several.is_several(document) and model is None:
        return read_all(document)
    return read_plan(path)


def read_all(document: Document) -> Several:
    """The plans of several models in a document, each read as strictly as one alone. Raises InputError."""
    found = several.from_document(document)
    for i, plan in enumerate(found.plans):
        _strictly(document, plan, ("plans", i))
    return found


def from_document(document: Document) -> Plan:
    """The plan in a document already read. Raises InputError."""
    return _strictly(document, validate(document, Plan), ())


def _strictly(document: Document, plan: Plan, within: Loc) -> Plan:
    """The plan, its embedded problem validated where it stands. Raises InputError."""
    from cluster_configs.schema import Cluster, Device
    from model_zoo.schema import ModelCard
    from planner.inputs.options import Options
    from planner.inputs.workload import Workload

    problem = plan.problem
    at: Loc = (*within, "problem")
    validate_part(document, Cluster, problem.cluster, (*at, "cluster"))
    validate_part(document, Workload, problem.workload, (*at, "workload"))
    if "buckets" not in problem.workload:  # a workload file may leave them out
        raise document.error("a plan says which requests it is for", (*at, "workload"), "give `buckets`")
    validate_part(document, Options, problem.options, (*at, "options"))
    if problem.model:
        validate_part(document, ModelCard, problem.model, (*at, "model"))
    for name, device in problem.devices.items():
        validate_part(document, Device, device, (*at, "devices", name))
    return plan
