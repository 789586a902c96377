"""With weights in host memory, where few designs keep an SLO that was relaxed to the tightest: what each
other engine gives under limits that it can keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.beside.planned import Planned
from planner.beside.rivals import Rival, told
from planner.errors import Infeasible
from planner.plans.schema import Alternative
from planner.question.posed import pose
from planner.rules.designs import OFFLOADS
from planner.search.find import find


def other_engines(planned: Planned) -> Iterator[Alternative]:
    """A line for each engine that the plan does not use."""
    asked = planned.asked
    if not asked.offload or asked.options.engine != "any":
        return
    for engine in sorted(OFFLOADS.keys() - {g.candidate.engine for g in planned.made}):
        one = replace(asked, options=asked.options.model_copy(update={"engine": engine}))
        try:
            _, pool, question = pose(one)
        except Infeasible:
            continue
        rival = Rival.of(partial(find, question, pool, planned.limits))
        if rival.fleet is not None:
            own = [g.operation for g in rival.fleet.made]
            ttft_s, tpot_s = max(o.ttft_s.max() for o in own), max(o.tpot_s.max() for o in own)
            remark = f"TTFT {1e3 * ttft_s:,.0f} ms, TPOT {1e3 * tpot_s:,.0f} ms: limits of its own"
            yield told(planned.fleet, rival, remark=remark)
