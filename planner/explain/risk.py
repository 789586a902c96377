"""What being surer costs: the best fleet that keeps each limit with a chance that nobody asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.asked import Asked
from planner.explain.reasons import describe
from planner.plans.found import Found, Group, groups
from planner.plans.predicted import chances
from planner.plans.schema import Alternative
from planner.posed import pooled
from planner.search import find, unserved
from solvers.linear import Limits, gap

VAGUE = 0.05
"""Gap above which a fleet that ran out of time says too little to be shown."""

SURER = 0.2
"""The risk whose price is told where the median prediction was assumed (0.5): four of five predictions keep
their limits then."""


def risk_price(asked: Asked, best: Found, made: Sequence[Group], limits: Limits) -> list[Alternative]:
    """The best fleet at the risk `SURER`, where no risk was asked for; none without limits to keep, with
    weights in host memory (their limits are the tightest there are), or where time was short.

    Where the plan's own chances are as good it is that fleet, and nothing is solved. Else candidates are made
    anew, as cautious as asked, and one solve says what they lose.
    """
    slo, ours = asked.workload.slo, best.solution.objective
    if "options.risk" not in asked.defaulted or asked.offload or not ours:
        return []
    if slo.ttft_ms is None and slo.tpot_ms is None:
        return []
    what = f"limits kept with a chance of {_percent(1 - SURER)} (--risk {SURER:g})"
    own = min((x for x in chances(best, made) if x is not None), default=1.0)
    if own >= 1 - SURER:
        return [Alternative(what=what, objective=ours, loss=0.0, why="this plan keeps them so")]
    options = asked.options.model_copy(update={"risk": SURER})
    pool, question = pooled(replace(asked, options=options))
    if unserved(question.state(pool, "bound")):
        return [Alternative(what=what, objective=None, loss=None, why="no replica is as sure to keep them")]
    rival = find(question, pool, limits)
    s = rival.solution
    if s.status == "interrupted":
        raise KeyboardInterrupt
    if s.status == "infeasible":
        return [Alternative(what=what, objective=None, loss=None, why="no fleet is as sure to keep them")]
    if s.objective is None or s.bound is None or gap(s.objective, s.bound) > max(VAGUE, limits.gap):
        return []
    worse = ours - s.objective if best.objective == "throughput" else s.objective - ours
    why = f"{describe(groups(rival))}; this plan keeps them with a chance of {_percent(own)}"
    return [Alternative(what=what, objective=s.objective, loss=max(worse / abs(ours), 0.0), why=why)]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
