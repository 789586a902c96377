"""Plans from their JSON, as `plan -o` wrote it or as someone edited it by hand."""

from __future__ import annotations

from pathlib import Path

from planner.plans.schema import Plan
from planner.reading.documents import Document, Loc, read
from planner.reading.validation import validate, validate_part


def read_plan(path: str | Path) -> Plan:
    """The plan in a file, its embedded problem read as strictly as the rest.

    Raises InputError with file:line:column.
    """
    return from_document(read(path))


def from_document(document: Document) -> Plan:
    """The plan in a document already read. Raises InputError."""
    plan = validate(document, Plan)
    from cluster_configs.schema import Cluster, Device
    from model_zoo.schema import ModelCard
    from planner.inputs.options import Options
    from planner.inputs.workload import Workload

    problem = plan.problem
    at: Loc = ("problem",)
    validate_part(document, Cluster, problem.cluster, (*at, "cluster"))
    validate_part(document, Workload, problem.workload, (*at, "workload"))
    validate_part(document, Options, problem.options, (*at, "options"))
    if problem.model:
        validate_part(document, ModelCard, problem.model, (*at, "model"))
    for name, device in problem.devices.items():
        validate_part(document, Device, device, (*at, "devices", name))
    return plan
