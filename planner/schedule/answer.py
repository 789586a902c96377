"""Replicas by the hour: what to rent in each slot of a day or week, for the least money, with its bound."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from cluster_configs.feeds import refuse
from planner.candidates.deadline import deadline
from planner.errors import LONGER, Infeasible, InputError, OutOfTime
from planner.question.asked import Asked
from planner.schedule.capacity import demand
from planner.schedule.policies import Fleet, Forecast, Judged, Load, autoscaler, forecast
from planner.schedule.units import Sized, Unit, units
from solvers import schedule as solver
from solvers.linear import Limits
from solvers.schedule import Kind, Problem

UNITS_SHARE = 0.4
"""Of the time limit, for what a node of each class serves."""

LEAST_SHARE = 0.25
"""Of the time limit that the search gets; by then no more is looked for of what nodes serve."""

BESIDE_SHARE = 0.2
"""Of the time that is left, for each schedule that is priced beside: without the margin, without roles."""


@dataclass(frozen=True)
class Ask:
    """`cold_s` in place of the computed cold starts; least seconds that a unit stays; share of the price at
    which nodes are reserved for the whole time (None: not offered); share of the demand that spot nodes may
    carry at most, and how often an hour one is taken away; margin on every slot's rate, as a share; `scale`
    times the recorded rates; share of requests that those without a foreknown day may miss."""

    cold_s: float | None = None
    min_up_s: float = 0.0
    reserved: float | None = None
    spot_share: float = 0.5
    spot_losses: float = 0.05
    margin: float = 0.0
    scale: float = 1.0
    short: float = 0.001
    limits: Limits = field(default_factory=lambda: Limits(gap=0.002, seconds=20.0))


@dataclass(frozen=True)
class Schedule:
    """`counts` of each unit by slot (unit, slot), units `reserved` of each class; classes `left_out`, of
    which no unit keeps the limits; sizes in nodes of a class of which that is `undecided`, as the time for it
    was over; requests/s of each slot as given and as planned for (`sized_rps`); dollars over all slots, the
    bound, and what others would pay: the best fleet that never changes, a tuned autoscaler, this one without
    its margin or with whole units alone, and those who know the day before."""

    units: list[Unit]
    left_out: list[str]
    undecided: dict[str, list[int]]
    slot_s: float
    rate_rps: list[float]
    sized_rps: list[float]
    sized_by: str
    margin: float
    counts: list[list[int]]
    reserved: dict[str, int]
    usd: float
    bound: float | None
    gap: float | None
    status: str
    static_usd: float | None
    autoscaler: Judged
    short: float
    bare_usd: float | None
    whole_usd: float | None
    forecast: Forecast | None
    seconds: float

    @property
    def hours(self) -> float:
        """Of all slots."""
        return len(self.rate_rps) * self.slot_s / 3600

    def as_json(self) -> dict[str, Any]:
        """As documents have it."""
        return {
            **asdict(self),
            "units": [{"name": u.name, **asdict(u)} for u in self.units],
            "hours": self.hours,
        }

    def rows(self) -> list[list[object]]:
        """A table for autoscalers, its header first: start of the slot, its rate, units of each class."""
        head: list[object] = ["start_s", "rate_rps", "sized_rps", *(u.name for u in self.units)]
        rows: list[list[object]] = [
            [t * self.slot_s, self.rate_rps[t], self.sized_rps[t], *(c[t] for c in self.counts)]
            for t in range(len(self.rate_rps))
        ]
        return [head, *rows]


def schedule(asked: Asked, ask: Ask) -> Schedule:
    """The cheapest schedule of the cluster for the workload's traffic. Raises InputError, Infeasible,
    OutOfTime."""
    began = time.perf_counter()
    traffic = asked.workload.traffic
    if traffic is None:
        hint = "make one of recorded requests: meshwright workload trace.csv -o chat.yaml"
        raise InputError("the workload has no `traffic`: no rate by hour", "--workload", hint)
    refuse(asked.cluster.feeds, "hours are planned")
    traffic = traffic.scaled(ask.scale)
    percentile = asked.workload.slo.percentile
    sized, by = demand(traffic, percentile, ask.margin)
    workload = asked.workload.model_copy(update={"rate_rps": max(sized), "traffic": traffic})
    asked = replace(asked, workload=workload)
    each_s = UNITS_SHARE * ask.limits.seconds / len(asked.cluster.classes)
    with deadline(began + (1 - LEAST_SHARE) * ask.limits.seconds):
        every = units(asked, replace(ask.limits, seconds=each_s), ask.cold_s)
    found = every.units
    _enough(every, sized)
    problem = stated(found, sized, traffic.slot_s, ask)
    others = {"margin": _bare(problem, ask.margin), "roles": _whole_units(problem)}
    left = max(ask.limits.seconds - (time.perf_counter() - began), LEAST_SHARE * ask.limits.seconds)
    beside = replace(ask.limits, seconds=BESIDE_SHARE * left)
    for_best = left * (1 - BESIDE_SHARE * sum(p is not None for p in others.values()))
    best = solver.solve(problem, replace(ask.limits, seconds=for_best))
    if best.counts is None or best.value is None:
        if best.status == "interrupted":
            raise KeyboardInterrupt
        if best.status == "infeasible":
            _known(every)
            raise Infeasible("no schedule carries every slot", hint=_hint(found, sized, ask))
        raise OutOfTime("no schedule was found in time", hint=LONGER)
    told = {name: p for name, p in others.items() if p is not None and best.status != "interrupted"}
    costs = {name: solver.solve(p, beside).value for name, p in told.items()}
    fleet = Fleet(problem, ask.min_up_s)
    return Schedule(
        units=found,
        left_out=sorted(
            {n.id for n in asked.cluster.classes} - {unit.node_class for unit in found} - {*every.unknown}
        ),
        undecided=every.undecided,
        slot_s=traffic.slot_s,
        rate_rps=list(traffic.rate_rps),
        sized_rps=sized,
        sized_by=by,
        margin=ask.margin,
        counts=best.counts.tolist(),
        reserved=dict(zip(dict.fromkeys(u.node_class for u in found), best.reserved, strict=True)),
        usd=best.value,
        bound=best.bound,
        gap=best.gap if math.isfinite(best.gap) else None,
        status=best.status,
        static_usd=solver.static(problem).value,
        autoscaler=autoscaler(fleet, Load.of(np.array(sized), traffic.slot_s), ask.short),
        short=ask.short,
        bare_usd=costs.get("margin"),
        whole_usd=costs.get("roles"),
        forecast=forecast(fleet, sized, traffic.slot_s, ask.short),
        seconds=time.perf_counter() - began,
    )


def stated(found: Sequence[Unit], sized: Sequence[float], slot_s: float, ask: Ask) -> Problem:
    """The numbers of `solvers.schedule`: one need, or two where units only prefill or only decode. A spot
    node that is taken away `spot_losses` times an hour starts anew as often, paid for and of no use
    meanwhile."""
    split = any(u.role != "mixed" for u in found)
    kinds = []
    for u in found:
        carries = np.array([[u.role != "decode"], [u.role != "prefill"]], dtype=float)[: 2 if split else 1]
        lost = 1 / (1 + ask.spot_losses * u.cold_s / 3600) if u.spot else 1.0
        capacity = carries * lost * np.array(u.by_slot)
        kinds.append(
            Kind(
                name=u.name,
                capacity=capacity,
                price_usd_per_hour=u.usd_per_hour,
                most=u.count,
                cold_hours=u.cold_s / 3600,
                up_slots=max(math.ceil(ask.min_up_s / slot_s - 1e-9), 1),
                reserved=None if u.spot else ask.reserved,
                risky=u.spot,
                of=u.node_class,
            )
        )
    needs = np.tile(np.array(sized), (2 if split else 1, 1))
    return Problem(tuple(kinds), needs, slot_s / 3600, safe=1 - ask.spot_share)


def _bare(problem: Problem, margin: float) -> Problem | None:
    """The same without its margin; None where it has none."""
    return replace(problem, demand=problem.needs / (1 + margin)) if margin > 0 else None


def _whole_units(problem: Problem) -> Problem | None:
    """The same of units that serve whole requests alone; None where all do."""
    if len(problem.needs) == 1:
        return None
    kinds = [
        replace(kind, capacity=own[0])
        for kind, own in zip(problem.kinds, problem.capacity, strict=True)
        if (own > 0).any(axis=1).all()
    ]
    return replace(problem, kinds=tuple(kinds), demand=problem.needs[0])


def _known(every: Sized) -> None:
    """Raises OutOfTime where classes may serve of which no unit was found in time: then nothing is said of
    all nodes together."""
    if every.unknown:
        names = ", ".join(every.unknown)
        raise OutOfTime(f"no schedule was found; what {names} serve was not decided in time", hint=LONGER)


def _enough(every: Sized, sized: Sequence[float]) -> None:
    """Raises Infeasible where all units together, whole ones, do not serve the slot that is worst off,
    OutOfTime where not all are known."""
    found = every.units
    whole = [u for u in found if u.role == "mixed"]
    most = np.sum([np.array(u.by_slot) * u.count for u in whole], axis=0)
    at = int(np.argmax(np.array(sized) / most))
    if sized[at] <= most[at] * (1 + 1e-9) or len(whole) < len(found):
        return
    _known(every)
    cheap = min(whole, key=lambda u: u.usd_per_rps)
    more = cheap.nodes * math.ceil((sized[at] - most[at]) / cheap.by_slot[at])
    raise Infeasible(
        f"slot {at} needs {sized[at]:.4g} requests/s, all nodes together serve {most[at]:.4g}",
        hint=f"{more} more node{'s' if more > 1 else ''} of {cheap.node_class}",
    )


def _hint(found: Sequence[Unit], sized: Sequence[float], ask: Ask) -> str:
    """Spot nodes are what there is enough of, or nodes of any kind are what there is not."""
    sure, needs = np.zeros(len(sized)), np.array(sized)
    for u in found:
        if u.role == "mixed" and not u.spot:
            sure += np.array(u.by_slot) * u.count
    share = float(np.max(1 - sure[needs > 0] / needs[needs > 0], initial=0.0))
    if not any(u.spot for u in found) or share <= ask.spot_share:
        return "more nodes, or looser limits"
    return f"--spot-share {math.ceil(100 * share) / 100:g}, or more nodes that are not spot"
