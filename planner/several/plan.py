"""Plan several models on one cluster: read, pose each, find one fleet of all, say what each costs the others,
assemble and check."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster_configs.schema import ResolvedCluster
from planner.api import LOOKING_SHARE, with_calibration, with_loads
from planner.candidates.deadline import deadline
from planner.errors import Infeasible, InputError, OutOfTime
from planner.inputs.several import Wanted
from planner.inputs.workload import Workload
from planner.objectives import THROUGHPUT
from planner.plans.schema.several import Several, Takes
from planner.plans.verified import Unsound
from planner.question.posed import pose
from planner.several.asked import LOADS, Question, read_several, refuse, wanted
from planner.several.find import find
from planner.several.finish import finish
from planner.several.joint import Fleets, Joint, Model
from planner.several.relaxed import relaxed
from planner.several.takes import taken, until
from solvers.fleet.union import own
from solvers.linear import Limits

MAIN_SHARE = 0.7
"""Share of the time left that the search of all models gets; the rest is for what each costs the others."""

TRIES = 4
"""Documents that may fail their check, one after the other, before that is an error."""

HINT_S = 5.0
"""Seconds to look for the largest common share, where not all can be served."""

TOGETHER = "looser limits, more nodes, or fewer models"
"""What would help where no fleet serves all models at once."""

Progress = Callable[[str], None]


class NotTogether(Infeasible):
    """Each model can be served alone, and no fleet serves all of them at once, at any rate."""


def plan_several(
    cluster: str | Path | ResolvedCluster | None,
    models: Sequence[str | Wanted] = (),
    *,
    gpus: str | None = None,
    workload: str | Path | Workload = "chat",
    work_limit: int | None = None,
    on_progress: Progress | None = None,
    explain: bool = True,
    **options: Any,
) -> Several:
    """Plans of several models on one cluster: of `models`, those that are named under the same workload, or
    of those that a workload file lists.

    `options`: as of `plan`, but for what is planned for one model only. With rates the cheapest fleet that
    serves all of them (objective `cost`, or `gpus`), or the largest common share of all (`throughput`);
    without, as many requests as possible in the proportion of the weights. Raises InputError, Infeasible,
    OutOfTime. What is returned has passed `check`.
    """
    began, tell = time.perf_counter(), on_progress or (lambda text: None)
    refuse(options)
    given = {name: value for name, value in options.items() if value is not None}
    loads = {name: given.pop(name, None) for name in LOADS}
    calibration = given.pop("calibration", None)
    found = wanted(models, workload, loads, given.get("engine"))
    if len(found) < 2:
        text = f"{len(found)} model is planned by itself: several are named by several --model"
        raise InputError(text, "--model", "meshwright plan CLUSTER.yaml --model A --model B")
    question = read_several(cluster, gpus, found, given)
    if calibration is not None:
        question = replace(question, asked=tuple(with_calibration(a, calibration) for a in question.asked))
    first = question.asked[0].options
    limits = Limits(first.gap, first.time_limit_s, work_limit, seed=first.seed)
    joint = posed(question, limits, began, tell)
    rates = [m.workload.rate_rps for m in found]
    try:
        return planned(joint, rates, limits, began, tell, explain)
    except NotTogether as error:
        tell("loosening default limits")
        with deadline(began + limits.seconds):
            looser = relaxed(joint, question.asked, limits)
        if looser is None:
            raise error from None
    return planned(looser, rates, limits, began, tell, explain)


def posed(question: Question, limits: Limits, began: float, tell: Progress) -> Joint:
    """Candidates of each model. Raises Infeasible where one fits nowhere, and names it; OutOfTime."""
    models = list[Model]()
    for i, (asked, weight) in enumerate(zip(question.asked, question.weights, strict=True)):
        tell(f"generating candidates of {asked.card.name}")
        share = LOOKING_SHARE * (i + 1) / len(question.asked)
        try:
            with deadline(began + share * limits.seconds):
                own_asked, pool, its = pose(with_loads(asked, None))
        except (Infeasible, OutOfTime) as error:
            raise type(error)(f"{asked.card.name}: {error.message}", error.where, error.hint) from None
        if own_asked.offload:
            text = f"{asked.card.name} fits on no GPUs of this cluster"
            hint = "weights in host memory are planned for one model at a time"
            raise Infeasible(text, hint=hint)
        models.append(Model(own_asked, pool, its, weight))
    demand = None if models[0].question.objective.more else question.rate_rps
    return Joint(tuple(models), demand)


def planned(
    joint: Joint,
    rates: Sequence[float | None],
    limits: Limits,
    began: float,
    tell: Progress = lambda text: None,
    explain: bool = True,
) -> Several:
    """The document of the best fleets that pass their check. Raises Infeasible, OutOfTime, Unsound."""
    end, bound, unsound = began + limits.seconds, None, None
    for _ in range(TRIES):
        solving = time.perf_counter()
        candidates = sum(len(m.pool.candidates) for m in joint.models)
        tell(f"solving over {candidates} candidates of {len(joint.models)} models")
        spent_s = max(MAIN_SHARE * (end - time.perf_counter()), 1.0)
        with deadline(end):
            fleets, last = find(joint, replace(limits, seconds=spent_s))
        if fleets is None:
            if unsound is not None:
                break
            raise none_found(joint, last.status, limits)
        if bound is not None:
            fleets = replace(fleets, solution=replace(fleets.solution, bound=bound))
        takes = list[Takes]()
        try:
            if explain and fleets.solution.status != "interrupted":
                tell("solving without each model")
                for one in taken(joint, fleets, limits, min(end, until(solving))):
                    takes.append(one)
        except KeyboardInterrupt:  # the fleets are there already
            fleets = fleets.interrupted()
        try:
            return finish(fleets, rates, began, replace(limits, seconds=1.0), takes)
        except Unsound as error:
            bound, unsound = fleets.solution.bound, error
            joint = without(joint, fleets)
    assert unsound is not None
    raise unsound


def without(joint: Joint, fleets: Fleets) -> Joint:
    """The question without the designs of a document that fails its check."""
    used: list[set[str]] = [set() for _ in joint.models]
    for name in fleets.solution.replicas:
        m, c = own(name)
        used[m].add(c)
    pools = [
        replace(m.pool, candidates=tuple(c for c in m.pool.candidates if c.id not in gone))
        for m, gone in zip(joint.models, used, strict=True)
    ]
    return joint.with_pools(pools)


def none_found(joint: Joint, status: str, limits: Limits) -> Exception:
    """Why there is no fleet, and the largest common share of all rates that there is. Raises
    KeyboardInterrupt where that ended the search."""
    if status == "interrupted":
        raise KeyboardInterrupt
    if status == "time_limit":
        return OutOfTime("no fleet of all models was found in time", hint="raise --time-limit")
    if joint.demand is None:
        return NotTogether("no fleet serves all models at once within their limits", hint=TOGETHER)
    fleets, last = find(most_of(joint), replace(limits, gap=max(limits.gap, 0.01), seconds=HINT_S))
    (last if fleets is None else fleets.solution).unbroken()
    if fleets is None and (last.status == "infeasible" or last.bound == 0):
        text = "no fleet serves all models at once within their limits, at any rate"
        return NotTogether(text, hint=TOGETHER)
    if fleets is None:
        hint = "lower rates, or a larger --time-limit, to be told how much can be served"
        return Infeasible("not all rates can be served at once", hint=hint)
    share, bound = fleets.solution.rate / joint.demand, fleets.solution.bound
    most = 1.0 if bound is None else bound / joint.demand
    said = f"at most {100 * most:.3g} %" if most < 1 else f"{100 * share:.3g} % were found"
    text = f"not all rates can be served: {said} of each at once"
    return Infeasible(
        text, hint=f"lower every rate to {100 * share:.3g} %, or --objective throughput plans that"
    )


def most_of(joint: Joint) -> Joint:
    """The question of the largest common share of all rates."""
    models = []
    for m in joint.models:
        closed = replace(m.question.traffic, rate_rps=None)
        models.append(replace(m, question=replace(m.question, objective=THROUGHPUT, traffic=closed)))
    return Joint(tuple(models), None)
