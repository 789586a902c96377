"""The whole story in a page: read, generate candidates, solve, explain, assemble, check."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

from cluster_configs.reading import from_gpus, read_cluster
from cluster_configs.schema import ResolvedCluster
from model_zoo.schema import ModelCard
from planner.candidates.generate import ENGINES, MOST_GPUS, Ask, Pool, generate
from planner.candidates.points import Mix, Promise
from planner.cost.precision import precisions
from planner.errors import InputError, MeshwrightError
from planner.explain import infeasible
from planner.explain.alternatives import alternatives
from planner.explain.prices import prices
from planner.inputs.options import Budget, Objective, Options
from planner.inputs.reading import parse_budget, read_workload
from planner.inputs.workload import Workload
from planner.plans import schema
from planner.plans.assemble import Found, assemble, groups, proof
from planner.problems.fleet import Traffic
from planner.search import Question, find, simplest, unserved
from solvers.linear import Limits

EXTRA_SHARE = 0.3
"""Of the time limit, for alternatives and prices together."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """Everything read and defaulted."""

    cluster: ResolvedCluster
    card: ModelCard
    workload: Workload
    options: Options
    objective: Objective
    defaulted: list[str]
    warnings: list[schema.PlanWarning]


def plan(
    cluster: str | Path | ResolvedCluster | None,
    model: str | ModelCard,
    *,
    gpus: str | None = None,
    workload: str | Path | Workload = "chat",
    isl: int | None = None,
    osl: int | None = None,
    rate: float | None = None,
    ttft_ms: float | str | None = None,
    tpot_ms: float | str | None = None,
    percentile: str | None = None,
    profile: str | Path | None = None,
    calibration: str | Path | None = None,
    work_limit: int | None = None,
    on_progress: Progress | None = None,
    **options: Any,
) -> schema.Plan:
    """The best plan for serving `model` on `cluster` (a path, a resolved cluster, or None with
    `gpus="8xH100"`).

    `options`: the fields of `planner.inputs.options.Options`; `budget` also as text. `work_limit`
    (branch-and-bound nodes) makes
    the answer the same on any machine. Raises InputError, Infeasible, OutOfTime. The plan returned has passed
    `check`.
    """
    began = time.perf_counter()
    tell = on_progress or (lambda text: None)
    if calibration is not None:
        raise InputError("calibration files are not read yet", where="--calibration")
    loads = {
        "isl": isl,
        "osl": osl,
        "rate": rate,
        "ttft_ms": ttft_ms,
        "tpot_ms": tpot_ms,
        "percentile": percentile,
    }
    asked = read(cluster, model, gpus, workload, loads, options)
    limits = Limits(asked.options.gap, asked.options.time_limit_s, work_limit, seed=asked.options.seed)
    if profile is not None:
        from planner.measured import plan_measured

        return plan_measured(asked, profile, limits, began)
    tell("generating candidates")
    asked, pool, question = candidates(asked)
    tell(f"solving over {len(pool.candidates)} candidates")
    found = find(question, pool, limits)
    if found.solution.objective is None:
        raise infeasible.explain(question, pool, found, limits)
    return finish(asked, question, simplest(question, found, limits), limits, began)


def read(
    cluster: str | Path | ResolvedCluster | None,
    model: str | ModelCard,
    gpus: str | None,
    workload: str | Path | Workload,
    loads: dict[str, Any],
    options: dict[str, Any],
) -> Asked:
    """All inputs, validated, with what was defaulted."""
    from model_zoo import catalog

    if (cluster is None) == (gpus is None):
        raise InputError("name one cluster: a YAML file, or --gpus", hint="--gpus 8xH100")
    if gpus is not None:
        resolved = from_gpus(gpus)
    else:
        resolved = cluster if isinstance(cluster, ResolvedCluster) else read_cluster(str(cluster))
    notes = list(resolved.warnings)
    card = model
    if not isinstance(card, ModelCard):
        card, more = catalog.find(card)
        notes += more
    if isinstance(workload, Workload):
        load, defaulted = workload, list[str]()
    else:
        load, defaulted = read_workload(workload, **loads)
    too_long(card, load)
    chosen = options_of(options)
    asked_for = {k for k, v in options.items() if v not in (None, "any")}
    names = ("objective", "engine", "precision", "kv_precision")
    defaulted += [f"options.{name}" for name in names if name not in asked_for]
    warnings = [schema.PlanWarning(code="input", message=text) for text in notes]
    return Asked(
        resolved, card, load, chosen, goal(chosen, load, resolved), defaulted, warnings + lowered(chosen)
    )


def too_long(card: ModelCard, workload: Workload) -> None:
    """Refuse requests longer than the model's context."""
    for i, b in enumerate(workload.buckets):
        if b.isl + b.osl > card.max_context:
            longest = f"{card.name} takes at most {card.max_context:,} tokens in all"
            raise InputError(
                f"a request of {b.isl:,} + {b.osl:,} tokens is too long: {longest}",
                where="--isl" if len(workload.buckets) == 1 else f"buckets[{i}]",
            )


def options_of(given: dict[str, Any]) -> Options:
    """Options from keyword arguments, `budget` also as "usd_per_hour=50,gpus=64"."""
    from pydantic import ValidationError

    values = {k: v for k, v in given.items() if v is not None}
    if isinstance(values.get("budget"), str):
        values["budget"] = parse_budget(values["budget"])
    try:
        return Options(**values)
    except ValidationError as e:
        first = e.errors()[0]
        name = "--" + str(first["loc"][0]).replace("_s", "").replace("_", "-")
        raise InputError(f"{first['msg']}, not `{first['input']}`", where=name) from None


def goal(options: Options, workload: Workload, cluster: ResolvedCluster) -> Objective:
    """The objective asked for, or the contract's default."""
    priced = all(node.price_usd_per_hour is not None for node in cluster.classes)
    if options.objective == "cost" and not priced:
        bare = next(n.id for n in cluster.classes if n.price_usd_per_hour is None)
        raise InputError(
            f"objective cost needs a price for every node; `{bare}` has none",
            where="--objective",
            hint="add price_usd_per_hour, or --objective gpus",
        )
    if options.budget.usd_per_hour is not None and not priced:
        bare = next(n.id for n in cluster.classes if n.price_usd_per_hour is None)
        raise InputError(
            f"a budget in dollars needs a price for every node; `{bare}` has none",
            where="--budget",
            hint="add price_usd_per_hour",
        )
    if options.objective is not None:
        if options.objective != "throughput" and workload.rate_rps is None:
            raise InputError(
                f"objective {options.objective} needs a rate to serve", where="--objective", hint="add --rate"
            )
        return options.objective
    if workload.rate_rps is None:
        return "throughput"
    return "cost" if priced else "gpus"


def lowered(options: Options) -> list[schema.PlanWarning]:
    """A precision that was asked for is flagged: the planner never buys speed with quality by itself."""
    named = {"--precision": options.precision, "--kv-precision": options.kv_precision}
    return [
        schema.PlanWarning(
            code="precision", message=f"{option} {value}: not the checkpoint's own; check the quality"
        )
        for option, value in named.items()
        if value
    ]


def candidates(asked: Asked) -> tuple[Asked, Pool, Question]:
    """Candidates that keep the SLO; a default SLO that nothing meets is relaxed to the tightest that can be
    met."""
    pool, question = _generate(asked)
    problem = question.state(pool.candidates)
    if not unserved(problem):
        return asked, pool, question
    if pool.fitting == 0:
        raise infeasible.does_not_fit(asked.cluster, asked.card, asked.options, pool)
    fixed = [f for f in ("ttft_ms", "tpot_ms") if f"slo.{f}" not in asked.defaulted]
    near = infeasible.tightest(pool, asked.workload.slo, fixed)
    if near is None:
        raise infeasible.does_not_fit(asked.cluster, asked.card, asked.options, pool)
    relaxed = _relaxed(asked, near)
    if relaxed is None:
        raise infeasible.too_slow(near, asked.workload.slo)
    pool, question = _generate(relaxed)
    if unserved(question.state(pool.candidates)):
        raise infeasible.too_slow(near, asked.workload.slo)
    return relaxed, pool, question


def _generate(asked: Asked) -> tuple[Pool, Question]:
    o, w = asked.options, asked.workload
    used = precisions(asked.card, o.precision, o.kv_precision)
    promise = Promise.of(w.slo, w.rate_rps)
    ask = Ask(
        card=asked.card,
        precisions=used,
        engines=ENGINES if o.engine == "any" else (o.engine,),
        workload=w,
        promise=promise,
        objective=asked.objective,
        risk_z=NormalDist().inv_cdf(1 - o.risk),
        watts_limited=o.budget.watts is not None,
    )
    pool = generate(asked.cluster.classes, ask)
    mix = Mix.of(w)
    setups = list(pool.setups.values())
    sent = setups[0].model.transfer_bytes(mix.isl) if setups else mix.isl * 0.0
    traffic = Traffic(
        share={str(i): float(s) for i, s in enumerate(mix.share)},
        kv_bytes={str(i): float(b) for i, b in enumerate(sent)},
        osl={str(i): b.osl for i, b in enumerate(w.buckets)},
        ttft_s=promise.ttft_s,
        rate_rps=w.rate_rps,
    )
    return pool, Question(asked.cluster, w, traffic, asked.objective, o.budget)


def _relaxed(asked: Asked, near: infeasible.Tightest) -> Asked | None:
    """The workload with the defaulted limits loosened just enough; None where a limit that was asked for
    stands in the way."""
    slo, changed = asked.workload.slo, {}
    for field, best in (("ttft_ms", near.ttft_s * 1e3), ("tpot_ms", near.tpot_s * 1e3)):
        limit = getattr(slo, field)
        if limit is None or best <= limit:
            continue
        if f"slo.{field}" not in asked.defaulted:
            return None
        changed[field] = float(infeasible.ceil_to(best))
    if not changed:
        return None
    words = ", ".join(
        f"{k.removesuffix('_ms').upper()} {getattr(slo, k):g} -> {v:g} ms" for k, v in changed.items()
    )
    note = schema.PlanWarning(
        code="slo_relaxed",
        message=f"nothing meets the default SLO; relaxed to the tightest that can be met: {words}",
    )
    workload = asked.workload.model_copy(update={"slo": slo.model_copy(update=changed)})
    return replace(asked, workload=workload, warnings=[*asked.warnings, note])


def finish(asked: Asked, question: Question, found: Found, limits: Limits, began: float) -> schema.Plan:
    """Explain, assemble and check a solved fleet. Ctrl-C while explaining ends that: the plan is there
    already."""
    made = groups(found)
    extras: dict[str, Any] = {"warnings": asked.warnings}
    if found.solution.status != "interrupted":
        extra = replace(limits, seconds=EXTRA_SHARE * limits.seconds / 2)
        try:
            extras["alternatives"] = alternatives(question, found, made, extra)
            extras["prices"] = prices(found, extra)
        except KeyboardInterrupt:
            found = replace(found, solution=replace(found.solution, status="interrupted"))
    proven = proof(found, time.perf_counter() - began, limits.seed, space_words(asked))
    result = assemble(found, problem_of(asked), made, proven, extras)
    _checked(result)
    return result


def space_words(asked: Asked) -> str:
    """What the bound speaks of."""
    engine = asked.options.engine
    engines = "all engines'" if engine == "any" else f"all {engine}-valid"
    designs = f"{engines} tp x pp x attention-dp x ep designs of usual sizes up to {MOST_GPUS} GPUs"
    return f"{designs}, one device class a replica, mixed and prefill/decode, by operating batch"


def problem_of(asked: Asked) -> schema.Problem:
    """The problem as used."""
    from cluster_configs.reading import as_document

    devices = {n.device.name: n.device.model_dump(exclude_none=True) for n in asked.cluster.classes}
    used = asked.options.model_copy(update={"objective": asked.objective})
    return schema.Problem(
        cluster=as_document(asked.cluster),
        devices=devices,
        model=asked.card.model_dump(exclude_none=True),
        workload=asked.workload.model_dump(),
        options=used.model_dump(exclude_none=True),
        defaulted=[*asked.defaulted, *asked.cluster.defaulted],
    )


def _checked(result: schema.Plan) -> None:
    """Every plan is checked before anyone sees it, by code that shares nothing with what made it."""
    from planner.check import check

    violations = check(result)
    if violations:
        first = violations[0]
        raise MeshwrightError(
            f"the plan failed its own check: {first.message}",
            where=first.where,
            hint="this is a mistake in the planner, not in your input: please report it",
        )


__all__ = ["Budget", "plan"]
