"""What is asked of several models, read: each model's own question, and their parts of all requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cluster_configs.schema import ResolvedCluster
from planner.errors import InputError
from planner.inputs.reading import read_workload
from planner.inputs.several import Wanted, lists_models, read_models
from planner.inputs.workload import Workload
from planner.question.asked import Asked, cluster_of, read

LOADS = ("isl", "osl", "rate", "ttft_ms", "tpot_ms", "percentile", "loop")
"""Options on the command line that hold for every model."""

NOT_BUILT = {
    "profile": "a table of measured designs",
    "trace": "a recorded trace",
    "survive": "lost nodes",
    "expert_loads": "recorded loads of experts",
    "e2e_ms": "a limit on whole requests",
    "precisions": "precisions tried beside the plan's",
    "speculation": "drafts",
}
"""Options that plan one model only, and what they bring."""


@dataclass(frozen=True)
class Question:
    """What is asked of each model, its requests as a part of all, and the rate of all (None: as many as
    possible)."""

    asked: tuple[Asked, ...]
    weights: tuple[float, ...]
    rate_rps: float | None


def wanted(
    models: Sequence[str | Wanted],
    workload: str | Path | Workload,
    loads: Mapping[str, Any],
    engine: str | None,
) -> list[Wanted]:
    """The models of a file, or those named on the command line, each with the same workload. Raises
    InputError."""
    given = {name: value for name, value in loads.items() if value is not None}
    if lists_models(workload):
        if models:
            hint = f"leave out --model, or choose a workload without `models:` in place of {workload}"
            raise InputError("models are named twice: by --model, and in the workload", "--model", hint)
        if given:
            option = "--" + next(iter(given)).replace("_", "-")
            raise InputError(f"{option} would hold for every model", option, "say it of each in the file")
        return read_models(str(workload))
    found = list[Wanted]()
    for name in models:
        if isinstance(name, Wanted):
            found.append(name)
            continue
        load, defaulted = (
            (workload, list[str]()) if isinstance(workload, Workload) else read_workload(workload, **given)
        )
        found.append(Wanted(name, load, defaulted, engine, 1.0, "--model"))
    return found


def refuse(options: Mapping[str, Any]) -> None:
    """Refuse what is planned for one model only. Raises InputError."""
    for name, what in NOT_BUILT.items():
        if options.get(name) is not None and (name, options[name]) != ("speculation", "off"):
            option = "--" + name.replace("_", "-")
            hint = "leave it out, or plan one model at a time"
            raise InputError(f"{what} cannot be planned for several models", option, hint)
    if options.get("engine") == "chains":
        raise InputError("chains cannot be planned for several models", "--engine", "choose another engine")
    budget = options.get("budget")
    if budget is not None and "watts" in str(budget) and getattr(budget, "watts", 0) is not None:
        hint = "limit usd_per_hour or gpus"
        raise InputError("a budget of watts cannot be planned for several models", "--budget", hint)
    if options.get("objective") in ("latency", "energy"):
        hint = "--objective throughput, cost or gpus"
        text = f"objective {options['objective']} cannot be planned for several models"
        raise InputError(text, "--objective", hint)


def read_several(
    cluster: str | Path | ResolvedCluster | None,
    gpus: str | None,
    models: Sequence[Wanted],
    options: Mapping[str, Any],
) -> Question:
    """Every model's question on the same cluster. Raises InputError."""
    resolved = cluster_of(cluster, gpus)
    _refuse_mixed(models, options.get("objective"))
    asked = []
    for m in models:
        if m.workload.reuse or m.workload.idle or m.workload.traffic:
            what = "idle cache and hours of traffic cannot be planned for several models"
            raise InputError(what, m.where, "state lengths, a rate and prefix_hit")
        own = {**options, **({"engine": m.engine} if m.engine else {})}
        one = read(resolved, m.model, None, m.workload, {}, own)
        before = [name for name in m.defaulted if name not in one.defaulted]
        asked.append(replace(one, defaulted=[*before, *one.defaulted]))
    _refuse_twice(asked, models)
    rates = [m.workload.rate_rps for m in models]
    total = sum(rate for rate in rates if rate is not None)
    parts = [rate for rate in rates if rate is not None] or [m.weight for m in models]
    whole = sum(parts)
    return Question(tuple(asked), tuple(part / whole for part in parts), total or None)


def _refuse_mixed(models: Sequence[Wanted], objective: str | None) -> None:
    """Either every model has a rate or none has; those without are served as much as possible. Raises
    InputError."""
    bare = [m for m in models if m.workload.rate_rps is None]
    if not bare:
        return
    if len(bare) < len(models):
        text = f"{bare[0].model} has no rate, others have: nothing says how much of it is asked"
        raise InputError(text, bare[0].where, "give every model a rate_rps, or none of them")
    if objective not in (None, "throughput"):
        text = f"objective {objective} needs a rate of every model; {bare[0].model} has none"
        raise InputError(text, "--objective", "add --rate, or rate_rps to each of `models:`")


def _refuse_twice(asked: Sequence[Asked], models: Sequence[Wanted]) -> None:
    """Raises InputError where two entries mean the same model."""
    names = [one.card.name for one in asked]
    for i, name in enumerate(names):
        if name in names[:i]:
            hint = "one entry with the traffic of both as `buckets`, or plan each by itself"
            raise InputError(f"{name} is named twice", models[i].where, hint)
