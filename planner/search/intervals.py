"""Columns of the bound's problem cut at loads, where watts grow with the load and are no lines.

A column that is cut at r_1 < r_2 … stands for its replicas of every load; each of its intervals for those
that serve from r_k to r_(k+1) requests/s each, and has lines that hold there. Any fleet is one of the cut
problem: its replicas are in the intervals of their own loads. Nothing is cut where requests are of several
kinds, as their rate is no load then, or where nodes may be lost: what is left of a fleet has other loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from planner.candidates.candidate import Candidate, Key
from planner.candidates.deadline import in_time
from planner.candidates.intervals import Curve, curves
from planner.plans.found import Found, groups
from planner.plans.operation import index_of
from planner.replicas.pool import Pool
from planner.search.question import Question
from solvers.fleet.costs import highest
from solvers.fleet.types import Column, FleetProblem, FleetSolution

FIRST = (0.04, 0.15, 0.4, 0.7)
"""Shares of a column's rate near which it is cut first: watts rise most at the lightest loads."""

MANY = 200
"""Candidates of which more are not all cut first, but those alone that a fleet has."""

LOOSE = 1e-3
"""An interval is cut again only where its lines say less than what a fleet draws by more than this share."""

Cuts = Mapping[str, tuple[float, ...]]
"""Candidate -> requests/s of a replica at which its column is cut, ascending."""


@dataclass(frozen=True)
class Interval:
    """The replicas of the column `of` a candidate that serve some loads."""

    of: str
    column: Column


Known = dict[str, Interval]
"""Intervals by name, each made once."""


def may_cut(question: Question) -> bool:
    """Whether columns of the question's problem may be cut."""
    one = len(question.traffic.share) == 1
    return question.objective.spends == "watts" and one and question.survive is None


def cut(problem: FleetProblem, pool: Pool, cuts: Cuts, known: Known) -> FleetProblem:
    """The problem with columns of intervals in place of each that is cut; those that are new become `known`.
    Raises OutOfTime."""
    columns, kinds = dict(problem.columns), dict(problem.kinds)
    (bucket,) = problem.share if cuts else ("",)
    own = [c for c in pool.candidates if c.id in cuts and c.id in columns]
    for c, curve in zip(own, curves_of(pool, own), strict=True):
        whole = columns.pop(c.id)
        for low, high in pairwise((0.0, *cuts[c.id], full_rate(whole))):
            name = f"{c.id}|{low:.9g} to {high:.9g}/s"
            if name not in known:
                share = min(high / full_rate(whole), 1.0)
                use = {j: {w: u / share for w, u in row.items()} for j, row in whole.use.items()}
                lines = curve.lines(bucket, low, high)
                known[name] = Interval(c.id, replace(whole, use=use, tangents=lines, least=low))
            columns[name] = replace(known[name].column, group=whole.group)
            kinds[name] = problem.kind(c.id)
    return replace(problem, columns=columns, kinds=kinds)


def curves_of(pool: Pool, some: Sequence[Candidate]) -> list[Curve]:
    """What each of the candidates draws. Raises OutOfTime."""
    alike, found = dict[tuple[Key, str], list[int]](), dict[int, Curve]()
    for i, c in enumerate(some):
        alike.setdefault((c.key, c.role), []).append(i)
    for members in alike.values():
        in_time()
        own = [some[i] for i in members]
        s = pool.setup(own[0])
        index = np.array([index_of(s, c) for c in own])
        found |= zip(members, curves(own, s, index), strict=True)
    return [found[i] for i in range(len(some))]


def full_rate(column: Column) -> float:
    """Requests/s that a replica serves at most, all of one kind."""
    return 1 / max(u for row in column.use.values() for u in row.values())


def joined(found: Found, problem: FleetProblem, known: Known) -> tuple[Found, dict[str, float]]:
    """`found`, whose solution is of the cut `problem`, as a fleet of whole columns, and what the lines say
    that the replicas of each candidate draw. Replicas in a second interval of a column stay apart: as a
    candidate like the first."""
    s, called, candidates = found.solution, dict[str, str](), found.candidates
    columns, kinds = dict(found.problem.columns), dict(found.problem.kinds)
    more = list[Candidate]()
    for name in s.replicas:
        own = known[name].of if name in known else name
        if own in called.values():
            more.append(replace(candidates[own], id=name))
            columns[name], kinds[name] = columns[own], problem.kind(name)
            own = name
        called[name] = own
    sign, least = problem.objective.sign, dict[str, float]()
    for name, value in s.least.items():
        own = known[name].of if name in known else name
        least[own] = min(value, least.get(own, value), key=lambda x: sign * x)
    replicas = {called[name]: k for name, k in s.replicas.items()}
    flows = {(called[name], w): x for (name, w), x in s.flows.items()}
    whole = replace(s, replicas=replicas, flows=flows, least=least, point=None, among=())
    pool = replace(found.pool, candidates=(*found.pool.candidates, *more))
    stated = replace(found.problem, columns=columns, kinds=kinds)
    lines = {called[name]: watts for name, watts in lines_of(problem, s).items()}
    return replace(found, pool=pool, problem=stated, solution=whole), lines


def lines_of(problem: FleetProblem, s: FleetSolution) -> dict[str, float]:
    """What the lines of each column say that its replicas draw."""
    return {c: highest(problem.columns[c], c, s) for c in s.replicas if problem.columns[c].tangents}


def further(found: Found, lines: Mapping[str, float], cuts: Cuts, near: Pool, known: Known) -> Cuts | None:
    """More cuts where the fleet `found` draws more than its `lines` say: first of all that is `near`, at the
    same shares of what each serves, then at the loads of its replicas; None where there are no more."""
    candidates, wanted = {c.id: c for c in near.candidates}, dict[str, list[float]]()
    for g in groups(found):
        name = g.candidate.id
        if g.count * g.operation.watts > lines.get(name, 0.0) * (1 + LOOSE):
            own = known[name].of if name in known else name
            wanted.setdefault(own, []).append(sum(g.served.values()) / g.count)
    if not cuts and wanted and len(candidates) <= MANY:
        wanted |= {c: [] for c in candidates if c not in wanted}
    some = [candidates[c] for c in wanted if c in candidates]
    more = dict(cuts)
    for c, curve in zip(some, curves_of(near, some), strict=True):
        first = cuts.get(c.id) or curve.nearest(share * curve.rate[-1] for share in FIRST)
        more[c.id] = tuple(sorted({*first, *curve.nearest(wanted[c.id])}))
    return more if more != cuts else None
