"""Replicas by the hour: what to rent in each slot of a day or week, for the least money, with its bound."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from planner.errors import Infeasible, InputError
from planner.inputs.traffic import Traffic
from planner.question.asked import Asked
from planner.schedule import reactive
from planner.schedule.units import Unit, units
from solvers import schedule as solver
from solvers.linear import Limits
from solvers.schedule import Kind, Problem, Solution

UNITS_SHARE = 0.4
"""Of the time limit, for what a node of each class serves."""

MARGIN_SHARE = 0.2
"""Of the time that is left, for the price of the margin."""

TAIL = ("p95", "p99")
"""Percentiles for which a slot is sized by its busiest minute: a minute of too many breaks them."""


@dataclass(frozen=True)
class Ask:
    """`cold_s` in place of the computed cold starts; least minutes that a unit stays; share of the price at
    which units are reserved for the whole time (None: not offered); share of the demand that spot nodes may
    carry at most; margin on every slot's rate, as a share; `scale` times the recorded rates."""

    cold_s: float | None = None
    min_up_s: float = 0.0
    reserved: float | None = None
    spot_share: float = 0.5
    margin: float = 0.0
    scale: float = 1.0
    limits: Limits = field(default_factory=lambda: Limits(gap=0.002, seconds=20.0))


@dataclass(frozen=True)
class Schedule:
    """`counts` of each unit by slot (unit, slot), `reserved` of them; classes `left_out`, of which no unit
    keeps the limits; requests/s of each slot as given and as
    planned for (`sized_rps`); dollars over all slots, the bound, and what others would pay: the best fleet
    that never changes, a tuned reactive autoscaler, and this one without its margin."""

    units: list[Unit]
    left_out: list[str]
    slot_s: float
    rate_rps: list[float]
    sized_rps: list[float]
    sized_by: str
    margin: float
    counts: list[list[int]]
    reserved: list[int]
    usd: float
    bound: float | None
    gap: float | None
    status: str
    static_usd: float
    reactive_usd: float
    reactive_head: float
    reactive_short: float
    margin_usd: float | None
    seconds: float

    @property
    def hours(self) -> float:
        """Of all slots."""
        return len(self.rate_rps) * self.slot_s / 3600

    def as_json(self) -> dict[str, Any]:
        """As documents have it."""
        return {**asdict(self), "hours": self.hours}

    def rows(self) -> list[list[object]]:
        """A table for autoscalers, its header first: start of the slot, its rate, units of each class."""
        head: list[object] = ["start_s", "rate_rps", "sized_rps", *(u.name for u in self.units)]
        rows: list[list[object]] = [
            [t * self.slot_s, self.rate_rps[t], self.sized_rps[t], *(c[t] for c in self.counts)]
            for t in range(len(self.rate_rps))
        ]
        return [head, *rows]


def schedule(asked: Asked, ask: Ask) -> Schedule:
    """The cheapest schedule of the cluster for the workload's traffic. Raises InputError, Infeasible."""
    began = time.perf_counter()
    traffic = asked.workload.traffic
    if traffic is None:
        hint = "make one of recorded requests: meshwright workload trace.csv -o chat.yaml"
        raise InputError("the workload has no `traffic`: no rate by hour", "--workload", hint)
    traffic = traffic.scaled(ask.scale)
    sized, by = demand(traffic, asked.workload.slo.percentile, ask.margin)
    asked = replace(asked, workload=asked.workload.model_copy(update={"rate_rps": max(sized)}))
    each_s = UNITS_SHARE * ask.limits.seconds / len(asked.cluster.classes)
    found = units(asked, replace(ask.limits, seconds=each_s), ask.cold_s)
    problem = stated(found, sized, traffic.slot_s, ask)
    if sum(u.rps * u.count for u in found) * (1 + 1e-9) < max(sized):
        _too_few(found, sized)
    left = max(ask.limits.seconds - (time.perf_counter() - began), 0.5)
    margin_s = MARGIN_SHARE * left if ask.margin > 0 else 0.0
    best = solver.solve(problem, replace(ask.limits, seconds=left - margin_s))
    if best.counts is None or best.value is None:
        if best.status == "infeasible":
            raise Infeasible("no schedule carries every slot", hint=_hint(found, sized, ask))
        raise InputError("no schedule was found in time", "--time-limit", "give more seconds")
    bare = _without_margin(problem, traffic, asked, ask, margin_s)
    static, follows = solver.static(problem), reactive.tuned(problem)
    return Schedule(
        units=found,
        left_out=[n.id for n in asked.cluster.classes if n.id not in {unit.name for unit in found}],
        slot_s=traffic.slot_s,
        rate_rps=list(traffic.rate_rps),
        sized_rps=sized,
        sized_by=by,
        margin=ask.margin,
        counts=best.counts.tolist(),
        reserved=list(best.reserved),
        usd=best.value,
        bound=best.bound,
        gap=best.gap if math.isfinite(best.gap) else None,
        status=best.status,
        static_usd=static.value or math.inf,
        reactive_usd=follows.usd,
        reactive_head=follows.head,
        reactive_short=follows.short,
        margin_usd=None if bare is None or bare.value is None else max(best.value - bare.value, 0.0),
        seconds=time.perf_counter() - began,
    )


def demand(traffic: Traffic, percentile: str, margin: float) -> tuple[list[float], str]:
    """Requests/s that each slot is sized for, and by which window."""
    tail = percentile in TAIL and bool(traffic.peak_rps)
    base = traffic.peak_rps if tail else traffic.rate_rps
    return [r * (1 + margin) for r in base], "busiest minute" if tail else "mean of the slot"


def stated(found: Sequence[Unit], sized: Sequence[float], slot_s: float, ask: Ask) -> Problem:
    """The numbers of `solvers.schedule`."""
    most = max(sized)
    kinds = tuple(
        Kind(
            name=u.name,
            capacity=u.rps,
            price_usd_per_hour=u.usd_per_hour,
            most=min(u.count, math.ceil(most / u.rps) + 1),
            cold_hours=u.cold_s / 3600,
            up_slots=max(math.ceil(ask.min_up_s / slot_s - 1e-9), 1),
            reserved=None if u.spot else ask.reserved,
            risky=u.spot,
        )
        for u in found
    )
    return Problem(kinds, tuple(sized), slot_s / 3600, safe=1 - ask.spot_share)


def _without_margin(
    problem: Problem, traffic: Traffic, asked: Asked, ask: Ask, seconds: float
) -> Solution | None:
    """The same without a margin; None where there is none."""
    if ask.margin <= 0:
        return None
    bare, _ = demand(traffic, asked.workload.slo.percentile, 0.0)
    return solver.solve(replace(problem, demand=tuple(bare)), replace(ask.limits, seconds=seconds))


def _too_few(found: Sequence[Unit], sized: Sequence[float]) -> None:
    """Raises Infeasible: all units together do not serve the busiest slot."""
    at = max(range(len(sized)), key=lambda t: sized[t])
    most = sum(u.rps * u.count for u in found)
    cheap = min(found, key=lambda u: u.usd_per_hour / u.rps)
    more = cheap.nodes * math.ceil((sized[at] - most) / cheap.rps)
    raise Infeasible(
        f"slot {at} needs {sized[at]:.4g} requests/s, all nodes together serve {most:.4g}",
        hint=f"{more} more node{'s' if more > 1 else ''} of {cheap.name}",
    )


def _hint(found: Sequence[Unit], sized: Sequence[float], ask: Ask) -> str:
    """Spot nodes are what there is enough of."""
    sure = sum(u.rps * u.count for u in found if not u.spot)
    share = 1 - sure / max(sized)
    return f"--spot-share {math.ceil(100 * share) / 100:g}, or more nodes that are not spot"
