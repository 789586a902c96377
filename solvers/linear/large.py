"""Programs so large that the relaxation is what takes HiGHS its time: what is tried before it.

Flows that need only be enough are left out (`flows`), where the program has such: HiGHS solves what remains.
Otherwise, where there is about one real column an integer, GLOP's relaxation is the bound and CP-SAT's answer
in whole columns (`cpsat`) a first plan. Within the gap asked for they are the answer; if not, HiGHS starts
from that plan. All others are HiGHS's alone.

Plans are checked against the rows. Where one is known, "infeasible" is not believed, nor a bound above its
value: HiGHS 1.12 has stated both. docs/decisions/0027-ortools.md
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from solvers.linear import cpsat, flows, glop
from solvers.linear.cbc import searched
from solvers.linear.program import ENDLESS_S, Floats, Limits, Outcome, Program, Status, judge, standing

SHARE = 0.2
"""Part of the time that CP-SAT gets."""

MOST_REALS = 1.2
"""Real columns for an integer, above which CP-SAT is not asked: it took 2 s and found nothing that helped."""


@dataclass(frozen=True)
class Known:
    """The best plan `values` (columns,) of a program so far, who found it, and the bounds stated."""

    a: glop.Arrays
    limits: Limits
    values: Floats | None = None
    solver: str = ""
    bounds: tuple[float, ...] = ()

    @property
    def value(self) -> float | None:
        return None if self.values is None else float(self.a.cost @ self.values)

    def told(self, solver: str, values: Floats | None, bound: float | None) -> Known:
        """With what `solver` found and proved, where it is better."""
        more = self if bound is None else replace(self, bounds=(*self.bounds, bound))
        if values is None or (self.value is not None and float(self.a.cost @ values) >= self.value):
            return more
        return replace(more, values=values, solver=solver)

    def outcome(self, stopped: Status = "time_limit") -> Outcome:
        """What plan and bounds prove, else why the search `stopped`. Bounds that the plan refutes go."""
        value = self.value
        bound = standing(self.bounds, value)
        return Outcome(
            judge(value, bound, self.limits, stopped), value, bound, self.values, self.solver or glop.NAME
        )

    @property
    def proven(self) -> bool:
        """Whether the plan is as good as was asked for."""
        return self.outcome().status != "time_limit"


def solve(model: Program, limits: Limits, start: Floats | None) -> Outcome:
    """Minimise `model`, as `Linear.solve` says."""
    stop = time.perf_counter() + limits.seconds
    known = Known(glop.Arrays.of(model), limits)
    if start is not None and known.a.solution(start):
        known = known.told("start", start, None)
    try:
        smaller = flows.without(model)
        if smaller is not None:
            first = _without_flows(known, smaller)
            known = known.told(first.solver, first.values, first.bound)
            if first.status == "infeasible" and known.values is None:
                return first
            if known.proven or first.status == "interrupted" or time.perf_counter() > stop:
                return known.outcome("interrupted" if first.status == "interrupted" else "time_limit")
        whole = _one_flow_each(model)
        if whole or known.values is not None:  # else there is no plan that its bound could prove
            known = _relaxed(known, model, stop)
        if whole and not known.proven:
            seconds = SHARE * (stop - time.perf_counter())
            known = known.told(cpsat.NAME, cpsat.whole(known.a, replace(limits, seconds=seconds)), None)
    except KeyboardInterrupt:
        return known.outcome("interrupted")
    if known.proven:
        return known.outcome()
    left = replace(limits, seconds=max(0.01, stop - time.perf_counter()))
    last = searched(model, left, start if known.values is None else known.values)
    if last.values is None and known.values is None and last.status in ("infeasible", "unbounded"):
        return last
    known = known.told(last.solver, last.values, last.bound)
    return known.outcome("interrupted" if last.status == "interrupted" else "time_limit")


def _without_flows(known: Known, smaller: flows.Without) -> Outcome:
    """HiGHS on the program without its flows, and its plan with them again, where it has one."""
    kept = np.array(smaller.kept)
    first = searched(smaller.model, known.limits, None if known.values is None else known.values[kept])
    if first.values is None:
        return first
    whole = np.flatnonzero(smaller.model.integer)
    integers = {int(kept[i]): round(first.values[i]) for i in whole}
    return replace(first, values=glop.completed(known.a, integers, ENDLESS_S))


def _one_flow_each(model: Program) -> bool:
    """Whether there is about one real column an integer: with several buckets whole ones rarely fit."""
    integers = sum(model.integer)
    return len(model.integer) - integers <= MOST_REALS * integers


def _relaxed(known: Known, model: Program, stop: float) -> Known:
    """With GLOP's bound."""
    relaxed = glop.relax(model, replace(known.limits, seconds=stop - time.perf_counter()))
    return known if relaxed is None else known.told(glop.NAME, None, relaxed.bound)
