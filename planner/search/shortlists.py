"""Candidates that fleets near the best may have, where that is known, and buckets that none serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.candidates.candidate import Candidate
from planner.plans.found import Found
from planner.replicas.pool import Pool
from planner.search.question import Question
from solvers.fleet.types import FleetProblem

ROUNDED = 1e-5
"""How much better than its bound a plan may be: its limits may be exceeded by SLACK."""

LITTLE = 0.1
"""Share of the best fleet's objective that others may lose which are looked for first where candidates are
many."""

FOREMOST = 200
"""Candidates of fleets that prove nothing, where there are many."""


def close_to(question: Question, best: Found) -> Pool:
    """The pool of `best` with those candidates alone that fleets may have which lose `LITTLE` of it at most;
    all where the question has a limit of its own."""
    value, least = best.solution.objective, best.solution.least
    if value is None or question.worst is not None:
        return best.pool
    return nearby(question, best.pool, least, value * (1 + question.sign * LITTLE))


def nearby(question: Question, pool: Pool, least: Mapping[str, float], worst: float | None) -> Pool:
    """The pool with those candidates alone that a fleet no worse than `worst` may have; `least`: the best
    objective of fleets with a candidate, where that is known."""
    if worst is None or not least:
        return pool

    def may(c: Candidate) -> bool:
        return question.sign * (least.get(c.id, worst) - worst) <= ROUNDED * abs(worst)

    return replace(pool, candidates=tuple(c for c in pool.candidates if may(c)))


def foremost(pool: Pool, least: Mapping[str, float], sign: float) -> Pool:
    """The pool with the `FOREMOST` candidates that the best fleets could have, where `least` tells."""
    known = sorted((c for c in pool.candidates if c.id in least), key=lambda c: sign * least[c.id])
    return replace(pool, candidates=tuple(known[:FOREMOST])) if known else pool


def unserved(problem: FleetProblem) -> list[int]:
    """Buckets that no column and no pair may serve on the nodes there are (columns of one node more are
    priced, not run)."""
    there = [c for c in problem.columns.values() if problem.most(c) > 0]
    served = {w for c in there if c.group is None for w in c.buckets}
    ends = {(c.group, w) for c in there if c.group is not None for w in c.buckets}
    served |= {w for p, d, w in problem.pairs if {(p, w), (d, w)} <= ends}
    return sorted(int(w) for w in problem.share if w not in served)
