"""Which limits cannot be kept together: a smallest set, any one of which left out makes the rest possible.

By the deletion filter (Chinneck, Dravnieks 1991, "Locating minimal infeasible constraint sets in linear
programs"): one limit after another is left out; where that helps it stays, else it is gone for good. What is
left is minimal: infeasible as a whole, feasible without any of its members, as limits only take away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from planner.candidates.deadline import deadline
from planner.errors import Infeasible, MeshwrightError, OutOfTime
from planner.inputs.options import Budget
from planner.question.asked import Asked
from planner.question.posed import pooled
from planner.search.find import find
from planner.search.shortlists import unserved
from solvers.linear import Limits

SELDOM = 1e-3
"""Of the rate that was asked for, what is served where that is no limit."""

ROUGH_GAP = 0.5
"""Any fleet will do: how good it is does not matter."""

MOST_S = 10.0
"""Seconds at most."""

T = TypeVar("T")


class Unknown(Exception):
    """Neither a fleet nor a proof that there is none, in time."""


@dataclass(frozen=True)
class Limit:
    """What was asked for in words, and the question without it."""

    words: str
    without: Callable[[Asked], Asked]


def minimal(limits: Sequence[T], feasible: Callable[[Collection[T]], bool]) -> list[T] | None:
    """A smallest set of limits in conflict, in their order; None where all together are feasible. Whatever is
    feasible must stay so with fewer limits."""
    if feasible(limits):
        return None
    kept = list(limits)
    for one in limits:
        fewer = [limit for limit in kept if limit is not one]
        if not feasible(fewer):
            kept = fewer
    return kept


def conflict(asked: Asked, seconds: float) -> list[str] | None:
    """The limits of a question that has no fleet and cannot be kept together, in words; None where there are
    not two of them, where that was not settled in `seconds`, or where no limit is to blame."""
    known = limits_of(asked)
    until = time.perf_counter() + seconds

    def feasible(kept: Collection[str]) -> bool:
        return _carries(_without(asked, {n: x for n, x in known.items() if n not in kept}), until)

    with suppress(Unknown, OutOfTime):
        found = minimal(list(known), feasible) if len(known) > 1 else None
        return [known[name].words for name in found] if found and len(found) > 1 else None
    return None


def with_conflict(error: MeshwrightError, asked: Asked, end_s: float) -> MeshwrightError:
    """The error of a question that has no fleet, with the limits that cannot be kept together where these are
    several, and there is time to find them until `end_s` (`time.perf_counter`)."""
    left_s = min(end_s - time.perf_counter(), MOST_S)
    if not isinstance(error, Infeasible) or left_s <= 0:
        return error
    several = conflict(asked, left_s)
    if several is None:
        return error
    together = f"{', '.join(several[:-1])} and {several[-1]}"
    rest = "either can without the other" if len(several) == 2 else "without any one of them the others can"
    said = f"{together} cannot be kept together; {rest}"
    return Infeasible(f"{error.message}; {said}", error.where, error.hint)


def limits_of(asked: Asked) -> dict[str, Limit]:
    """What may be left out of a question: its rate, limits on times, budgets, lost nodes."""
    w, o, found = asked.workload, asked.options, dict[str, Limit]()
    if w.rate_rps is not None:
        found["rate"] = Limit(f"{w.rate_rps:g} req/s", _seldom)
    for name, limit in w.slo.limits.items():
        words = f"{name.removesuffix('_ms').upper()} within {limit:g} ms"
        found[name] = Limit(words, lambda a, n=name: _loose(a, n))  # type: ignore[misc]
    for name, budget in o.budget.model_dump(exclude_none=True).items():
        gpus = "{:g} GPU" if budget == 1 else "{:g} GPUs"
        unit = {"usd_per_hour": "${:g} an hour", "gpus": gpus, "watts": "{:g} W"}[name]
        found[name] = Limit(
            f"at most {unit.format(budget)}",
            lambda a, n=name: _budget(a, n),  # type: ignore[misc]
        )
    if o.survive is not None:
        lost = "a lost node" if o.survive.nodes == 1 else f"{o.survive.nodes} lost nodes"
        found["survive"] = Limit(f"{lost} survived", _unsafe)
    return found


def _without(asked: Asked, gone: Mapping[str, Limit]) -> Asked:
    for limit in gone.values():
        asked = limit.without(asked)
    return asked


def _seldom(asked: Asked) -> Asked:
    return asked.loaded(rate_rps=(asked.workload.rate_rps or 0.0) * SELDOM)


def _loose(asked: Asked, name: str) -> Asked:
    return asked.loaded(slo=asked.workload.slo.model_copy(update={name: None}))


def _budget(asked: Asked, name: str) -> Asked:
    budget = Budget(**{k: v for k, v in asked.options.budget.model_dump().items() if k != name})
    return replace(asked, options=asked.options.model_copy(update={"budget": budget}))


def _unsafe(asked: Asked) -> Asked:
    return replace(asked, options=asked.options.model_copy(update={"survive": None}))


def _carries(asked: Asked, until: float) -> bool:
    """Whether any fleet does it. Raises Unknown where the time is over, or the search broken off, first."""
    left = until - time.perf_counter()
    if left <= 0:
        raise Unknown
    with deadline(until):
        try:
            pool, question = pooled(asked)
        except Infeasible:
            return False
        if pool.late:
            raise Unknown
        if unserved(question.state(pool, "bound")):
            return False
        s = find(question, pool, Limits(gap=ROUGH_GAP, seconds=left)).solution
    if s.status == "interrupted" or (s.objective is None and not s.refuted):
        raise Unknown
    return s.objective is not None and s.rate > 0
