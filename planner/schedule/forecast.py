"""What a table of the day before misses of a day, the margin that it needs, and what else would do: tried on
all days of a workload but the first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.schedule.policies import HEADS, Fleet, Judged, Load, Policy, autoscaler, cheapest

DAY_S = 86_400.0
FIXED = 0.2
"""A margin that people take without looking."""

TOGETHER = (0.0, 0.1, 0.2, 0.3, 0.5)
"""Margins of a table that an autoscaler stands beside."""


@dataclass(frozen=True)
class Forecast:
    """`days` that were tried; dollars where each day is known; the table of the day before as it is, with
    `FIXED` more, and with the least margin that keeps `short`; with an autoscaler beside it; the autoscaler
    alone."""

    days: float
    short: float
    known_usd: float
    bare: Judged
    fixed: Judged
    table: Judged
    both: Judged
    alone: Judged


def forecast(
    fleet: Fleet, rate_rps: list[float], slot_s: float, short: float, in_slot: int = 1
) -> Forecast | None:
    """Of rates each `slot_s`, so many of which are one slot of the fleet's; None where there are not two
    days."""
    load = Load.of(np.array(rate_rps), slot_s)
    load = replace(load, slot=load.slot // in_slot)
    day = round(DAY_S / load.step_s)
    if len(load.rate) < 2 * day or abs(day * load.step_s - DAY_S) > 1:
        return None
    today, before = load.part(slice(day, None)), load.part(slice(0, len(load.rate) - day))

    def of(margin: float, head: float | None) -> Judged:
        return fleet.judged(today, Policy(margin, head), before)

    tables = [of(margin, None) for margin in HEADS]
    both = [of(margin, head) for margin in TOGETHER for head in HEADS]
    return Forecast(
        days=len(today.rate) * load.step_s / DAY_S,
        short=short,
        known_usd=fleet.judged(today, Policy(0.0, None)).usd,
        bare=tables[0],
        fixed=of(FIXED, None),
        table=cheapest(tables, short),
        both=cheapest(both, short),
        alone=autoscaler(fleet, today, short),
    )
