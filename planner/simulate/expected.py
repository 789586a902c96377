"""What the plan's own formulas say of times at every percentile, at the plan's own load."""

from __future__ import annotations

from typing import get_args

import numpy as np

from planner.operating.requests import Terms
from planner.operating.times import arriving
from planner.queueing import Percentile
from planner.simulate.groups import Servers

Times = dict[str, float]


def expected(servers: Servers) -> dict[str, Times]:
    """Milliseconds by "ttft_ms" and "tpot_ms", then by percentile, mean over requests as plans have it. Empty
    where formulas know means only: in closed loops, and of prefill/decode pairs."""
    plan = servers.plan
    if servers.workload.rate_rps is None or any(r.role != "mixed" for r in plan.replicas):
        return {}
    found: dict[str, Times] = {"ttft_ms": {}, "tpot_ms": {}}
    for percentile in get_args(Percentile):
        sums, weight = np.zeros(2), 0.0
        for r in plan.replicas:
            own, rate = servers.own_step(r), servers.rates[r.id]
            each = (rate / (r.count * r.attn_dp))[None]
            terms = Terms("mixed", float(own.budget), percentile, "open")
            e = arriving(own.model, own.leveled.step, own.asked, each, terms)
            sums += [float(rate @ e.ttft_s[0]), float(rate @ e.tpot_s[0])]
            weight += float(rate.sum())
        for name, value in zip(found, 1e3 * sums / max(weight, 1e-12), strict=True):
            if np.isfinite(value):
                found[name][percentile] = float(value)
    return found
