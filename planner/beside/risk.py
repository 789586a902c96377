"""What caution costs: the best fleet whose limits hold by the median prediction alone."""

from __future__ import annotations

from dataclasses import replace

from planner.beside.planned import Planned
from planner.beside.reasons import describe
from planner.candidates.deadline import late
from planner.inputs.options import MEDIAN
from planner.plans.found import Found, groups
from planner.plans.predicted import chances
from planner.plans.schema import Alternative
from planner.question.posed import ask_of, pooled
from planner.replicas.again import anew
from planner.search.find import find
from planner.search.shortlists import foremost, unserved

SURE = 0.995
"""Chance from which on a limit holds nobody back: the bold fleet is the plan, and nothing is solved."""

WORTH = 0.01
"""Gain of the bold fleet from which on it is shown: below, it is within the gap of a plan."""


def risk_price(planned: Planned) -> list[Alternative]:
    """Return the best fleet at the median prediction, where no risk was asked for and it is better.

    None without limits to keep, with weights in host memory (their limits are the tightest there are), or
    where time was short.
    """
    asked, best = planned.asked, planned.found
    slo, ours = asked.workload.slo, planned.fleet.objective
    if "options.risk" not in asked.defaulted or asked.offload or not ours:
        return []
    if slo.ttft_ms is None and slo.tpot_ms is None:
        return []
    own = min((x for x in chances(best, planned.made) if x is not None), default=1.0)
    rival = None if own >= SURE else _bold(planned)
    objective = None if rival is None else planned.known(rival.solution)
    if rival is None or objective is None or planned.fleet.gain(objective) < WORTH:
        return []
    odds = min((x for x in chances(rival, groups(rival)) if x is not None), default=1.0)
    kept = f"keeps the limits with a chance of {_percent(odds)}, this plan with {_percent(own)}"
    why = f"{describe(groups(rival))}; {kept}"
    what = f"limits kept by the median prediction (--risk {MEDIAN:g})"
    return [Alternative(what=what, objective=objective, loss=0.0, why=why)]


def _bold(planned: Planned) -> Found | None:
    """Return the best fleet at the median with no more kinds of replica than the plan may have.

    So what the plan gives up for few kinds is not counted. Designs of the best candidates come first; all are
    tried where those make no fleet or stages stand on several classes. None where no replica keeps the
    limits. Raises OutOfTime.
    """
    asked, best = planned.asked, planned.found
    few = best.space.most_kinds
    bold = replace(asked, options=asked.options.model_copy(update={"risk": MEDIAN}))
    if not any(best.candidates[c].design.stages for c in best.solution.replicas):
        question = replace(planned.question, most_kinds=few)
        levels = {c.level for c in best.pool.candidates} - {0}
        among = foremost(best.pool, best.solution.least, question.sign)
        pool = anew(among, best.cluster.classes, ask_of(bold), levels=levels)
        if not unserved(question.state(pool, "bound")):
            found = find(question, pool, planned.limits)
            if found.solution.status != "infeasible":
                return found
    pool, question = pooled(bold)
    question = replace(question, most_kinds=few)
    if not unserved(question.state(pool, "bound")):
        return find(question, pool, planned.limits)
    if pool.late:
        raise late()  # a bold fleet may be among what was not looked at
    return None


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
