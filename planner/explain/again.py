"""A plan's own question asked again, from the plan alone."""

from __future__ import annotations

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Device
from model_zoo.schema import ModelCard
from planner.errors import InputError
from planner.inputs.options import Options
from planner.inputs.workload import Workload
from planner.objectives import named
from planner.plans.schema import Plan
from planner.question.asked import Asked


def asked_again(plan: Plan) -> Asked:
    """What a plan was asked for; of one that a replay sized what it was sized for. Raises InputError where it
    has replicas of another kind: chains, or from a table of measured ones."""
    p = plan.problem
    if plan.chains or not p.model:
        kind = "chains of nodes" if plan.chains else "measured replicas"
        raise InputError(f"other designs are not solved beside {kind}", "--why-not", "leave it out")
    cluster = Cluster.model_validate(p.cluster)
    devices = {name: Device.model_validate(form) for name, form in p.devices.items()}
    options = Options.model_validate(p.options)
    return Asked(
        cluster=resolve(cluster, devices=devices),
        card=ModelCard.model_validate(p.model),
        workload=_sized(plan, Workload.model_validate(p.workload)),
        options=options,
        objective=named(str(options.objective)),
        defaulted=list(p.defaulted),
        warnings=[],
        model_id=p.model_id,
    )


def _sized(plan: Plan, workload: Workload) -> Workload:
    told = plan.replayed
    if told is None:
        return workload
    limits = {"ttft_ms": told.ttft_ms, "tpot_ms": told.tpot_ms, "e2e_ms": None}
    slo = workload.slo.model_copy(update=limits)
    return workload.model_copy(update={"rate_rps": told.sized_rps, "slo": slo})
