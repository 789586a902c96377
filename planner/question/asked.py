"""What was asked for, read and defaulted: the inputs of a plan, and their form in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from cluster_configs.reading import as_document, from_gpus, read_cluster
from cluster_configs.schema import ResolvedCluster
from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, ModelCard
from planner.candidates.ask import Freedom
from planner.cost.calibration import Calibration, shipped
from planner.designs.precision import precision_named, precisions
from planner.drafts.kinds import drafts_of
from planner.errors import InputError, nearest
from planner.inputs.arrivals import drawn, refuse_percentiles
from planner.inputs.options import MEDIAN, Options
from planner.inputs.reading import parse_budget, parse_survive, read_workload
from planner.inputs.traces import Trace, read_trace
from planner.inputs.workload import Workload
from planner.objectives import COST, GPUS, THROUGHPUT, Objective, named
from planner.plans import schema
from planner.reading.names import unfit_title

Only = Callable[[Any, Any, ResolvedCluster], Any]
"""From a pool, what is asked of it and the cluster to a pool of some of its designs (`planner/imports`)."""

LOADS: Final = ("isl", "osl", "rate", "ttft_ms", "tpot_ms", "e2e_ms", "percentile", "loop")
"""Arguments that state a load."""


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
    calibration: Calibration = field(default_factory=shipped)
    freedom: Freedom | None = None  # of stages in one replica; None: what engines start as they come
    contexts: Sequence[int] = ()  # values of cp that are offered; empty: by the length of prompts
    offload: bool = False  # weights may lie in host memory
    model_id: str = ""  # under which engines load the model: as it was asked for
    only: Only | None = None  # what is kept of all candidates; None: all
    trace: Trace | None = None  # when requests came, where that was recorded

    @property
    def at_median(self) -> Asked:
        """The same with limits kept by the median prediction, which nobody assumed."""
        defaulted = [name for name in self.defaulted if name != "options.risk"]
        options = self.options.model_copy(update={"risk": MEDIAN})
        return replace(self, options=options, defaulted=defaulted)

    @property
    def in_a_closed_loop(self) -> Asked:
        """The same with as many requests always in flight, for what is not planned with random arrivals."""
        defaulted = [name for name in self.defaulted if name != "arrivals"]
        text = "planned for a closed loop: chains of nodes are not planned with random arrivals"
        note = schema.PlanWarning(code="input", message=text)
        asked = replace(self, defaulted=defaulted, warnings=[*self.warnings, note])
        return asked.loaded(arrivals="closed")

    def loaded(self, **changes: Any) -> Asked:
        """The same with changes to its workload."""
        return replace(self, workload=self.workload.model_copy(update=changes))


def read(
    cluster: str | Path | ResolvedCluster | None,
    model: str | ModelCard,
    gpus: str | None,
    workload: str | Path | Workload,
    loads: dict[str, Any],
    options: dict[str, Any],
    profiled: bool = False,
    trace: str | Path | None = None,
) -> Asked:
    """All inputs, validated, with what was defaulted."""
    from model_zoo import catalog

    resolved = cluster_of(cluster, gpus)
    notes = list(resolved.warnings)
    card, model_id = model, ""
    if not isinstance(card, ModelCard):
        model_id = str(card)
        card, more = catalog.find(card)
        model_id, notes = catalog.asked_id(model_id, card), notes + more
        if why := unfit_title(model_id):
            raise InputError(f"the model's name {why}", "--model")
    if isinstance(workload, Workload):
        load, defaulted = workload, list[str]()
    else:
        load, defaulted = read_workload(workload, **loads)
    recorded = None
    if trace is not None:
        recorded = read_trace(trace)
        load, told = _of_trace(load, card, recorded, defaulted)
        notes, defaulted = notes + told, [name for name in defaulted if name not in ("isl", "osl")]
    too_long(card, load, "--isl" if trace is None else f"the mean of {trace}")
    load = load.merged
    chosen = options_of(options)
    by_median = profiled or chosen.engine == "chains"  # neither has bands, nor is planned at random
    load, defaulted = drawn(load, defaulted, by_median)
    refuse_percentiles(load, chosen, profiled)
    _refuse_whole_times(load, chosen, profiled)
    _refuse_loss_of_all(chosen, resolved)
    _refuse_unknown_precisions(card, chosen)
    drafts_of(card, chosen.speculation, chosen.acceptance, chosen.draft_tokens)  # which the model must have
    asked_for = {k for k, v in options.items() if v not in (None, "any")}
    if by_median and "risk" not in asked_for:
        chosen = chosen.model_copy(update={"risk": MEDIAN})
    names = ["objective", "engine", "precision", "kv_precision"]
    if not by_median:
        names.append("risk")
    defaulted += [f"options.{name}" for name in names if name not in asked_for]
    warnings = [schema.PlanWarning(code="input", message=text) for text in notes]
    return Asked(
        resolved,
        card,
        load,
        chosen,
        goal(chosen, load, resolved, profiled),
        defaulted,
        warnings + lowered(chosen),
        model_id=model_id,
        trace=recorded,
    )


def cluster_of(cluster: str | Path | ResolvedCluster | None, gpus: str | None) -> ResolvedCluster:
    """The one cluster that is named: by a file, as it was read, or by its GPUs. Raises InputError."""
    if (cluster is None) == (gpus is None):
        raise InputError("name one cluster: a YAML file, or --gpus", hint="--gpus 8xH100")
    if gpus is not None:
        return from_gpus(gpus)
    return cluster if isinstance(cluster, ResolvedCluster) else read_cluster(str(cluster))


def _of_trace(
    load: Workload, card: ModelCard, trace: Trace, defaulted: Sequence[str]
) -> tuple[Workload, list[str]]:
    """The workload with a trace's requests, and notes on it. Raises InputError."""
    from planner.inputs.trace_workload import traced  # here, not above: few plans have a trace

    found, notes = traced(load, trace, {"isl", "osl"} - set(defaulted) if defaulted else ())
    if long := int((trace.isl + trace.osl > card.max_context).sum()):
        most = f"{card.name} takes {card.max_context:,} tokens at most"
        notes.append(
            f"{long:,} requests of {trace.path} are longer: {most}; their lengths count in the means"
        )
    return found, notes


def too_long(card: ModelCard, workload: Workload, lone: str) -> None:
    """Refuse requests longer than the model's context; `lone`: where a single bucket's length is from."""
    for i, b in enumerate(workload.buckets):
        if b.isl + b.osl > card.max_context:
            longest = f"{card.name} takes at most {card.max_context:,} tokens in all"
            raise InputError(
                f"a request of {b.isl:,} + {b.osl:,} tokens is too long: {longest}",
                where=lone if len(workload.buckets) == 1 else f"buckets[{i}]",
            )


def options_of(given: dict[str, Any]) -> Options:
    """Options from keyword arguments, `budget` also as "usd_per_hour=50,gpus=64"."""
    from pydantic import ValidationError

    from planner.reading.validation import reworded

    values = {k: v for k, v in given.items() if v is not None}
    for name in values.keys() - Options.model_fields.keys():
        near = ", ".join(f"`{n}`" for n in nearest(name, [*Options.model_fields, *LOADS], 3))
        raise InputError(f"`{name}` is no option of a plan", where=name, hint=f"nearest: {near}")
    if isinstance(values.get("budget"), str):
        values["budget"] = parse_budget(values["budget"])
    if isinstance(values.get("survive"), str | int):
        values["survive"] = parse_survive(values["survive"])
    for name, known in (("precision", WEIGHT_BYTES), ("kv_precision", KV_BYTES)):
        if isinstance(values.get(name), str):
            values[name] = precision_named(values[name], known)
    try:
        return Options(**values)
    except ValidationError as e:
        first = e.errors()[0]
        name = "--" + str(first["loc"][0]).removesuffix("_s").replace("_", "-")
        message, hint = reworded(first, (name,), [])
        raise InputError(message, where=name, hint=hint) from None


def _refuse_unknown_precisions(card: ModelCard, options: Options) -> None:
    """Raises InputError for one to be tried that does not exist."""
    for name in options.precisions or ():
        try:
            precisions(card, name)
        except InputError as error:
            raise InputError(error.message, "--precisions", error.hint) from None


def _refuse_whole_times(workload: Workload, options: Options, profiled: bool) -> None:
    """A limit on whole requests is kept by a replay, which needs a rate and one of the objectives that the
    load does not change. Raises InputError."""
    if workload.slo.e2e_ms is None:
        return
    for bad, text, hint in (
        (workload.rate_rps is None, "a limit on whole requests is kept in a replay at a rate", "add --rate"),
        (options.survive is not None, "whole requests are not promised beside lost nodes", "leave one out"),
        (profiled or options.engine == "chains", "whole requests are not promised for these", "leave it out"),
        (
            options.objective not in (None, "cost", "gpus"),
            "a limit on whole requests is kept for the least cost or the fewest GPUs",
            "--objective cost, or gpus",
        ),
    ):
        if bad:
            raise InputError(text, "--e2e-ms", hint)


def _refuse_loss_of_all(options: Options, cluster: ResolvedCluster) -> None:
    """Without any node nothing is served; parts of one node are lost together, which no row says. Raises
    InputError."""
    box = next((node.box for node in cluster.classes if node.box), None)
    if options.survive is not None and box:
        raise InputError(
            f"lost nodes are not planned beside `{box}`, a node with unlike GPUs", "--survive", "leave it out"
        )
    nodes = sum(node.node_count for node in cluster.classes)
    if options.survive is not None and options.survive.nodes >= nodes:
        there = "there is one" if nodes == 1 else f"there are {nodes:,}"
        lost = f"{options.survive.nodes:,} lost node{'s' if options.survive.nodes > 1 else ''}"
        hint = f"--survive {nodes - 1 if nodes > 2 else 'node'}" if nodes > 1 else "a cluster of more nodes"
        raise InputError(f"nothing is left after {lost}: {there}", "--survive", hint)


def goal(options: Options, workload: Workload, cluster: ResolvedCluster, profiled: bool) -> Objective:
    """The objective asked for, or the contract's default. A table of the user's own may bring the prices."""
    bare = next((n.id for n in cluster.classes if n.price_usd_per_hour is None), None)
    priced = profiled or bare is None
    for wanted, what, where, hint in (
        (options.objective == "cost", "objective cost", "--objective", ", or --objective gpus"),
        (options.budget.usd_per_hour is not None, "a budget in dollars", "--budget", ""),
    ):
        if wanted and not priced:
            text = f"{what} needs a price for every node; `{bare}` has none"
            raise InputError(text, where, f"add price_usd_per_hour{hint}")
    if options.objective is not None:
        asked = named(options.objective)
        if not asked.more and workload.rate_rps is None:
            raise InputError(
                f"objective {options.objective} needs a rate to serve", where="--objective", hint="add --rate"
            )
        return asked
    if workload.rate_rps is None:
        return THROUGHPUT
    return COST if priced else GPUS


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


def _unsaid(workload: Workload) -> set[str]:
    """Fields of a workload that say nothing where nothing is found again, or no hours are told."""
    return {name for name in ("reuse", "idle", "traffic", "arrivals") if not getattr(workload, name)}


def problem_of(asked: Asked) -> schema.Problem:
    """The problem as used."""
    devices = {n.device.name: n.device.model_dump(exclude_none=True) for n in asked.cluster.classes}
    used = asked.options.model_copy(update={"objective": asked.objective.name})
    return schema.Problem(
        cluster=as_document(asked.cluster),
        devices=devices,
        model=asked.card.model_dump(exclude_none=True),
        model_id=asked.model_id,
        workload=asked.workload.model_dump(exclude=_unsaid(asked.workload)),
        options=used.model_dump(exclude_none=True),
        defaulted=[*asked.defaulted, *asked.cluster.defaulted],
        calibration={"name": "shipped", **asked.calibration.about},
    )
