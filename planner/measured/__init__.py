"""`plan --profile TABLE.csv`: the best fleet by the user's own measurements, with the same proof as any plan.

The table says what a replica sustains; nothing here predicts. What it does not say (step times, memory, the
layout inside a replica) stands as 0 in the plan under a warning `measured_profile`, and latencies stand at
their limits, which the table claims to keep. The table is embedded, so that `check` can count it again.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from planner.beside.prices import priced
from planner.inputs.options import Budget
from planner.inputs.profile import read_profile
from planner.launch import launched
from planner.measured import parts
from planner.measured.parts import place
from planner.measured.problem import Stated, state
from planner.measured.rivals import rivals
from planner.measured.shortage import explain
from planner.plans.assemble import proof
from planner.plans.found import Found
from planner.plans.placement import Placed
from planner.plans.schema import Alternative, Plan, Price, Space
from planner.plans.verified import verified
from planner.question.asked import Asked, problem_of
from planner.replicas.pool import Pool
from planner.search.changes import judged, tidied
from planner.search.limits import left
from planner.version import __version__
from solvers import fleet
from solvers.fleet.extract import value
from solvers.linear import Limits

__all__ = ["plan_measured"]

EXTRA_SHARE, EXTRA_S = 0.3, 3.0
"""Share of the time limit, and seconds at most, for alternatives and prices together."""


def plan_measured(asked: Asked, profile: str | Path, limits: Limits, began: float) -> Plan:
    """The best plan by the rates of `profile`; `began` on `time.perf_counter`. The plan has passed `check`.

    Raises InputError for a table that cannot be used, Infeasible where it covers no bucket or not the rate,
    OutOfTime where the limit passed before any fleet was found.
    """
    rows = read_profile(profile)
    stated = state(asked, rows, str(profile))
    found = solved(asked, stated, limits)
    if found.solution.objective is None:
        raise explain(found, limits)
    found, placed = _placed(found, limits)
    found, extras = _explained(found, limits, asked.options.budget)
    fleet_ = parts.Fleet(asked, stated, found, placed)
    what = f"the designs of {profile} on every class that has their device, serving buckets by turns"
    tried = found.pool.considered
    space = Space(considered=tried, kept=len(found.space.columns), complete=True, what=what)
    result = Plan(
        meshwright_version=__version__,
        problem=problem_of(asked).model_copy(update={"calibration": _embedded(fleet_)}),
        replicas=parts.replicas(fleet_),
        routing=parts.routing(fleet_),
        predicted=parts.predicted(fleet_),
        proof=proof(found, found, [], time.perf_counter() - began, limits.seed, space),
        warnings=[*asked.warnings, *stated.warnings, *parts.warnings(fleet_, str(profile))],
        **extras,
    )
    return verified(launched(result))


def solved(asked: Asked, stated: Stated, limits: Limits) -> Found:
    """The best fleet of the table's designs, its traffic spread evenly; `objective` None: there is none. What
    was found stays where Ctrl-C ends that."""
    until = time.monotonic() + limits.seconds
    pool = Pool(tuple(stated.candidates), {}, len(stated.candidates))
    s = tidied(stated.problem, fleet.solve(stated.problem, limits), limits)
    if s.objective is not None and asked.workload.loop == "open":
        try:
            s = fleet.balance(stated.problem, s, left(limits, until))
        except KeyboardInterrupt:
            s = replace(s, status="interrupted")
    if s.rate <= 0:
        s = replace(s, objective=None)
    return Found(asked.cluster, asked.workload, asked.objective, pool, stated.problem, s)


def _placed(found: Found, limits: Limits) -> tuple[Found, Placed]:
    """Replicas that serve something on as few nodes as hold them, and the objective of just these."""
    s = found.solution
    busy = {c for c, _ in s.flows}
    counts = {c: k for c, k in s.replicas.items() if c in busy}
    placed = place(found.cluster.classes, counts, found.candidates)
    nodes = {g: k for g, k in placed.used.items() if k}
    s = replace(s, replicas=counts, nodes=nodes)
    s = judged(replace(s, objective=value(found.problem, s)), limits)
    return replace(found, solution=s), placed


def _explained(found: Found, limits: Limits, budget: Budget) -> tuple[Found, dict[str, Any]]:
    """Alternatives and prices, each within its share of the time; none after Ctrl-C, which keeps the plan."""
    extras: dict[str, list[Alternative] | list[Price]] = {}
    if found.solution.status != "interrupted":
        some = replace(limits, seconds=min(EXTRA_SHARE * limits.seconds, EXTRA_S) / 2)
        try:
            extras["alternatives"] = rivals(found, some)
            extras["prices"] = priced(found, some, budget)
        except KeyboardInterrupt:
            found = found.interrupted()
    return found, extras


def _embedded(f: parts.Fleet) -> dict[str, Any]:
    """The table as used, and the design of each group: what `check` counts again."""
    rows = [{k: v for k, v in asdict(row).items() if v is not None} for row in f.stated.rows]
    return {"profile": rows, "designs": {f.ids[c.id]: c.label for c, _ in f.running}}
