"""What being surer costs: the best fleet that keeps each limit with a chance that nobody asked for."""

from __future__ import annotations

from dataclasses import replace

from planner.beside.planned import Planned
from planner.beside.reasons import describe
from planner.candidates.deadline import late
from planner.plans.found import Found, groups
from planner.plans.predicted import chances
from planner.plans.schema import Alternative
from planner.question.posed import ask_of, pooled
from planner.replicas.again import anew
from planner.search.find import find
from planner.search.shortlists import foremost, unserved

SURER = 0.2
"""The risk whose price is told where the median prediction was assumed (0.5): four of five predictions keep
their limits then."""


def risk_price(planned: Planned) -> list[Alternative]:
    """The best fleet at the risk `SURER`, where no risk was asked for; none without limits to keep, with
    weights in host memory (their limits are the tightest there are), or where time was short.

    Where the plan's own chances are as good it is that fleet, and nothing is solved. Else one solve says what
    fleets as cautious as asked lose.
    """
    asked, best = planned.asked, planned.found
    slo, ours = asked.workload.slo, planned.fleet.objective
    if "options.risk" not in asked.defaulted or asked.offload or not ours:
        return []
    if slo.ttft_ms is None and slo.tpot_ms is None:
        return []
    what = f"limits kept with a chance of {_percent(1 - SURER)} (--risk {SURER:g})"
    own = min((x for x in chances(best, planned.made) if x is not None), default=1.0)
    if own >= 1 - SURER:
        return [Alternative(what=what, objective=ours, loss=0.0, why="this plan keeps them so")]
    rival = _surer(planned)
    if rival is None:
        return [Alternative(what=what, objective=None, loss=None, why="no replica is as sure to keep them")]
    if rival.solution.status == "infeasible":
        few = " of as few kinds of replica" if best.space.most_kinds else ""
        why = f"no fleet{few} is as sure to keep them"
        return [Alternative(what=what, objective=None, loss=None, why=why)]
    objective = planned.known(rival.solution)
    if objective is None:
        return []
    why = f"{describe(groups(rival))}; this plan keeps them with a chance of {_percent(own)}"
    loss = max(-planned.fleet.gain(objective), 0.0)
    return [Alternative(what=what, objective=objective, loss=loss, why=why)]


def _surer(planned: Planned) -> Found | None:
    """The best fleet at the risk `SURER` of no more kinds of replica than the plan may have, so that what the
    plan gives up for few is not gained: of designs that the best candidates have; of all where those make no
    fleet or stages stand on several classes. None where no replica keeps the limits so. Raises OutOfTime."""
    asked, best = planned.asked, planned.found
    few = best.space.most_kinds
    surer = replace(asked, options=asked.options.model_copy(update={"risk": SURER}))
    if not any(best.candidates[c].design.stages for c in best.solution.replicas):
        question = replace(planned.question, most_kinds=few)
        levels = {c.level for c in best.pool.candidates} - {0}
        among = foremost(best.pool, best.solution.least, question.sign)
        pool = anew(among, best.cluster.classes, ask_of(surer), levels=levels)
        if not unserved(question.state(pool, "bound")):
            found = find(question, pool, planned.limits)
            if found.solution.status != "infeasible":
                return found
    pool, question = pooled(surer)
    question = replace(question, most_kinds=few)
    if not unserved(question.state(pool, "bound")):
        return find(question, pool, planned.limits)
    if pool.late:
        raise late()  # what is as sure may be among what was not looked at
    return None


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
