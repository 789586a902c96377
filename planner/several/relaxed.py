"""Default limits that each model keeps alone, and not all of them at once: loosened until one fleet serves
all, as those of one model are (`question/posed.py`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from planner.candidates.deadline import late
from planner.inputs.workload import Slo
from planner.plans import schema
from planner.question.asked import Asked
from planner.question.posed import changes, pooled
from planner.several.find import find
from planner.several.joint import Joint, Model
from planner.why.infeasible import LOOSER, longer
from solvers.linear import Limits

GAP, SECONDS = 0.05, 5.0
"""Of a search that asks only whether there is a fleet."""

Loose = Sequence[tuple[int, str]]
"""Limits that are loosened: whose, and which."""


def relaxed(joint: Joint, asked: Sequence[Asked], limits: Limits) -> Joint | None:
    """The question with as few of the default limits loosened as little as one fleet of all needs, by the
    same factor, and warnings against what was `asked`; None where no default limit helps. Raises OutOfTime,
    KeyboardInterrupt."""
    rough = replace(limits, gap=max(limits.gap, GAP), seconds=SECONDS)
    loose: Loose = [
        (i, name)
        for i, m in enumerate(joint.models)
        for name in m.asked.workload.slo.limits
        if f"slo.{name}" in m.asked.defaulted
    ]

    def served(times: float, loose: Loose) -> bool:
        tried = loosened(joint, times, loose)
        fleets, last = find(tried, rough)
        (last if fleets is None else fleets.solution).unbroken()
        if fleets is None and any(m.pool.late for m in tried.models):
            raise late()  # what is not there may be among what was not looked at
        return fleets is not None

    if not loose or not served(LOOSER[-1], loose):
        return None
    times = LOOSER[bisect_left(LOOSER, True, key=lambda t: served(t, loose))]
    for one in loose:
        rest = [other for other in loose if other != one]
        if served(times, rest):
            loose = rest
    found = loosened(joint, times, loose)
    every = zip(joint.models, found.models, asked, strict=True)
    return replace(found, models=tuple(m if m is own else _told(m, a.workload.slo) for own, m, a in every))


def loosened(joint: Joint, times: float, loose: Loose) -> Joint:
    """The question with some limits so many times as long, and the candidates that keep them."""
    models = list(joint.models)
    for i, m in enumerate(models):
        slo = m.asked.workload.slo
        own = {name: getattr(slo, name) for j, name in loose if j == i}
        if own:
            its = m.asked.loaded(slo=longer(slo, own, times))
            pool, question = pooled(its)
            models[i] = replace(m, asked=its, pool=pool, question=question)
    return replace(joint, models=tuple(models))


def _told(m: Model, before: Slo) -> Model:
    """The model with a warning of its limits, and what they were before."""
    words = changes(before, m.asked.workload.slo)
    said = f"nothing meets the default SLO beside the other models; relaxed until all are served: {words}"
    others = [w for w in m.asked.warnings if w.code != "slo_relaxed"]
    note = schema.PlanWarning(code="slo_relaxed", message=said)
    return replace(m, asked=replace(m.asked, warnings=[*others, note]))
