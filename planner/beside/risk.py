"""What being surer costs: the best fleet that keeps each limit with a chance that nobody asked for."""

from __future__ import annotations

from dataclasses import replace

from planner.beside.planned import Planned
from planner.beside.reasons import describe
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
        return [Alternative(what=what, objective=None, loss=None, why="no fleet is as sure to keep them")]
    objective = planned.known(rival.solution)
    if objective is None:
        return []
    why = f"{describe(groups(rival))}; this plan keeps them with a chance of {_percent(own)}"
    loss = max(-planned.fleet.gain(objective), 0.0)
    return [Alternative(what=what, objective=objective, loss=loss, why=why)]


def _surer(planned: Planned) -> Found | None:
    """The best fleet at the risk `SURER`, of designs that the best candidates have; of all where those serve
    nothing or stages stand on several classes. None where no replica keeps the limits so."""
    asked, question, best = planned.asked, planned.question, planned.found
    surer = replace(asked, options=asked.options.model_copy(update={"risk": SURER}))
    levels = {c.level for c in best.pool.candidates} - {0}
    among = foremost(best.pool, best.solution.least, question.sign)
    pool = anew(among, best.cluster.classes, ask_of(surer), levels=levels)
    staged = any(best.candidates[c].design.stages for c in best.solution.replicas)
    if staged or unserved(question.state(pool, "bound")):
        pool, question = pooled(surer)
        if unserved(question.state(pool, "bound")):
            return None
    return find(question, pool, planned.limits)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
