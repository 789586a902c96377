"""What a search changes of a problem or an answer between two solves: tidied, eased, insured, judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.plans.strain import Late
from planner.search.question import at_least
from solvers import fleet
from solvers.fleet.extract import value as fleet_value
from solvers.fleet.goals import SPARE
from solvers.fleet.prices import few
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.linear import Limits, Status, judge

TINY = 5e-10
"""How much worse a tidier fleet may be: rounding."""

MANY = 100
"""Columns from which on a tidier fleet is looked for among the kinds of the first alone."""


def tidied(problem: FleetProblem, s: FleetSolution, limits: Limits) -> FleetSolution:
    """A fleet exactly as good as `s`, with fewer GPUs and less work on them: a second solve with the first's
    answer as a row, of many columns among those of its kinds. Where watts or latency are the goal hardly two
    fleets are alike."""
    if s.objective is None or s.rate <= 0 or s.status == "interrupted":
        return s
    if problem.objective.spends in ("watts", "latency"):
        return s
    worst = s.objective * (1 + problem.objective.sign * TINY)
    own, point = few(problem, s.among) if s.among else problem, s.point
    if len(own.columns) >= MANY:
        there = {problem.kind(c) for c in s.replicas}
        own, point = few(own, [c for c in own.columns if problem.kind(c) in there]), None
    same = replace(at_least(own, worst), objective=SPARE, demand=s.rate * (1 - TINY))
    quick = replace(limits, gap=max(limits.gap, 0.005))
    best = fleet.solve(same, quick, point)
    if best.status == "interrupted":
        return replace(s, status="interrupted")
    if best.objective is None:
        return s
    among = () if own is problem else tuple(own.columns)
    value = fleet_value(problem, best)
    return replace(best, objective=value, bound=s.bound, status=s.status, solver=s.solver, among=among)


def judged(s: FleetSolution, limits: Limits) -> FleetSolution:
    """`s` with the status that its objective deserves against its bound."""
    if s.objective is None or s.bound is None:
        return s
    stopped: Status = "interrupted" if s.status == "interrupted" else "time_limit"
    return replace(s, status=judge(s.objective, s.bound, limits, stopped))


LIGHTEST = 0.3
"""Share of its traffic below which easing a column is not worth while."""

EASINGS = 8
"""Rounds in which a late column is loaded less before it is cut off from what it answers late."""


def eased(problem: FleetProblem, late: Sequence[Late], rounds: int) -> FleetProblem:
    """The problem with each late column charged more for its traffic, or cut off from the bucket where no
    load is light enough."""
    columns, lighter = dict(problem.columns), set[str]()
    for bad in late:
        if bad.candidate not in columns or bad.bucket not in columns[bad.candidate].buckets:
            continue
        if bad.candidate in lighter:  # for a worse bucket
            continue
        use = columns[bad.candidate].use
        if bad.share > LIGHTEST and rounds < EASINGS:
            use = {j: {w: u / bad.share for w, u in row.items()} for j, row in use.items()}
            lighter.add(bad.candidate)
        else:
            use = {j: {w: u for w, u in row.items() if w != bad.bucket} for j, row in use.items()}
        if next(iter(use.values())):
            columns[bad.candidate] = replace(columns[bad.candidate], use=use)
        else:
            del columns[bad.candidate]
    return replace(problem, columns=columns)


MORE_LEFT = 0.02
"""What the rest of a lost fleet is given beyond where it fell short, as a share of that."""

MOST_LEFT = 1.5
"""Times its share, in one round."""


def insured(problem: FleetProblem, short: float) -> FleetProblem:
    """The problem with more left for the rest, whose fleet was `short` times of what it has to serve."""
    assert problem.survive is not None
    more = min(max(short * (1 + MORE_LEFT), 1 + MORE_LEFT), MOST_LEFT)
    return replace(problem, survive=replace(problem.survive, share=more * problem.survive.share))
