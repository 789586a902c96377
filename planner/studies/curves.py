"""Curves of what is given up for what: exact points, each the best fleet within one limit, with its bound.

A curve is made by the ε-constraint method (Haimes, Lasdon, Wismer 1971): one of two aims becomes a limit, the
other is optimised, and the limit moves. No point is a sample of configurations: each is a plan, no better one
exists within its limit than its bound says.

    speed    tokens/s of a user against tokens/s of a GPU: limits on TPOT, the most throughput within each
    cost     dollars an hour against seconds of a request, at a rate: budgets, the least latency within each.
             Between two points halfway, at last a cent below the dearer: where points suffice none is missed.
    energy   requests/s against watts of all GPUs: rates up to the highest that is carried, the fewest watts
             for each

Which of a curve's points are left out: pareto.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from planner.errors import Infeasible, InputError, OutOfTime
from planner.plans.schema import Plan
from planner.reports.figures import owned

Solve = Callable[..., Plan]
"""`api.plan` of a question, with more options. Raises Infeasible, OutOfTime, InputError."""

STEP = 0.7
"""Of the limit on TPOT, the next one, until nothing keeps it."""

STEPS = 16
"""Such limits at most."""

CENT = 0.01

NEAR = 1.05
"""How near two budgets are, as a factor, where just below the dearer one is tried."""

SOLVES = 3
"""Budgets that are tried for each point asked for, at most: some bring none."""

ALMOST = 0.999
"""Of the most that is served, the largest rate that is asked for."""

LITTLE = 1e-3
"""Of what a closed loop serves, a rate that is carried: the most throughput is sought from there on."""

EQUAL = 1e-6
"""Relative difference below which two figures are one."""


@dataclass(frozen=True)
class Axis:
    """What is measured, in which unit, and whether more of it is better."""

    what: str
    unit: str
    more: bool


@dataclass(frozen=True)
class Point:
    """The best plan within a limit of the curve's: `x` and `y` are its own, `limit` what x was held to, and
    `bound` what no fleet can better y beyond within it."""

    x: float
    y: float
    limit: float
    bound: float
    plan: Plan

    @property
    def gap(self) -> float:
        """|bound - y| / |y|."""
        return abs(self.bound - self.y) / abs(self.y) if self.y else 0.0


Points = Callable[[Solve, int], Iterator[Point]]


@dataclass(frozen=True)
class Curve:
    """Two aims, and how its points are found, at most so many."""

    name: str
    x: Axis
    y: Axis
    points: Points


def speed(solve: Solve, most: int) -> Iterator[Point]:
    """From the most throughput at any TPOT to the fastest that can be."""
    known: dict[float, Point] = {}

    def at(limit_ms: float | None) -> Point | None:
        try:
            plan = solve(tpot_ms="none" if limit_ms is None else limit_ms, rate=None, objective="throughput")
        except (Infeasible, OutOfTime):
            return None
        p, gpus = plan.predicted, owned(plan)
        if p.tpot_ms.value <= 0:
            raise InputError("answers of a single token come at no speed", "--osl", "--osl 2, or more")
        own_ms, osl = p.tpot_ms.value, p.out_tok_per_s.value / p.rps.value
        rate = plan.proof.chosen if plan.proof.chosen is not None else plan.proof.objective
        bound = max(plan.proof.bound, rate) * osl / gpus
        held = own_ms if limit_ms is None else limit_ms
        return Point(1e3 / own_ms, rate * osl / gpus, 1e3 / held, bound, plan)

    first = at(None)
    if first is None:
        return
    limit_ms = last = 1e3 / first.x
    known[limit_ms] = first
    yield first
    for _ in range(min(STEPS, most - 1)):
        limit_ms *= STEP
        found = at(limit_ms)
        if found is None:
            break
        last, known[limit_ms] = limit_ms, found
        yield found
    for _ in range(max(most - len(known) - 1, 0)):
        between = _widest(known)
        if between is None or (found := at(between)) is None:
            break
        known[between] = found
        yield found
    if len(known) < most and (found := at((last * last * STEP) ** 0.5)) is not None:
        yield found


def _widest(known: Mapping[float, Point]) -> float | None:
    """Between which two limits the curve falls most: halfway, in logarithms; None where there is one."""
    falls = [(abs(known[a].y - known[b].y), (a * b) ** 0.5) for a, b in pairwise(sorted(known))]
    return max(falls)[1] if falls else None


def cost(solve: Solve, most: int) -> Iterator[Point]:
    """The least latency at any price and for the least money, and steps between, the highest first."""
    cheapest = solve(objective="cost").predicted.usd_per_hour
    assert cheapest is not None

    def at(budget: float | None) -> Point | None:
        more = {} if budget is None else {"budget": f"usd_per_hour={budget:.4f}"}
        try:
            plan = solve(objective="latency", **more)
        except (Infeasible, OutOfTime):
            return None
        usd, own = plan.predicted.usd_per_hour, plan.proof.own
        assert usd is not None
        held = usd.value if budget is None else budget
        return Point(usd.value, own, held, min(plan.proof.bound, own), plan)

    ends = [p for p in (at(cheapest.value + CENT / 2), at(None)) if p is not None]
    yield from ends
    if len(ends) < 2 or ends[1].x <= ends[0].x + CENT:
        return
    open_, found = [Between(ends[0], ends[1], ends[0].x)], 2
    for _ in range(SOLVES * most):
        open_ = [b for b in open_ if b.steps]
        if not open_ or found >= most:
            return
        widest = max(open_, key=lambda b: b.fall)
        open_.remove(widest)
        if (point := at(budget := widest.next)) is None:
            continue
        if point.x <= widest.cheap.x + CENT / 2:  # nothing better than the cheaper end up to here
            open_.append(replace(widest, known=budget))
            continue
        yield point
        found += 1
        open_.append(Between(widest.cheap, point, widest.known))
        open_.append(Between(point, widest.dear, max(budget, point.x)))


@dataclass(frozen=True)
class Between:
    """Budgets between two points; up to `known` dollars an hour the cheaper end is the best there is."""

    cheap: Point
    dear: Point
    known: float

    @property
    def steps(self) -> bool:
        """Whether a step of the curve may lie between: budgets are of whole cents, latencies differ."""
        return self.dear.x - self.known > 1.5 * CENT and self.fall > EQUAL

    @property
    def fall(self) -> float:
        """By what share latency falls from one end to the other."""
        return (self.cheap.y - self.dear.y) / self.dear.y

    @property
    def next(self) -> float:
        """The budget that is tried next: halfway in logarithms, at the end just below the dearer one."""
        just_below = self.dear.x - CENT
        return (self.known * just_below) ** 0.5 if self.known * NEAR < just_below else just_below


def energy(solve: Solve, most: int) -> Iterator[Point]:
    """Even parts of what a closed loop serves; where that is not carried with Poisson arrivals, of the most
    that is."""

    def at(rate: float) -> Point | None:
        try:
            plan = solve(rate=rate, objective="energy")
        except (Infeasible, OutOfTime):
            return None
        return Point(rate, plan.proof.own, rate, min(plan.proof.bound, plan.proof.own), plan)

    peak = ALMOST * solve(rate=None, objective="throughput").predicted.rps.value
    highest = at(peak)
    if highest is None:
        with suppress(Infeasible, OutOfTime):
            peak = ALMOST * solve(rate=LITTLE * peak, objective="throughput").predicted.rps.value
            highest = at(peak)
    for point in chain([highest], (at(peak * i / most) for i in range(1, most))):
        if point is not None:
            yield point


CURVES: tuple[Curve, ...] = (
    Curve("speed", Axis("of a user", "tok/s", True), Axis("of a GPU", "tok/s", True), speed),
    Curve("cost", Axis("cost", "$/h", False), Axis("a request", "s", False), cost),
    Curve("energy", Axis("served", "req/s", True), Axis("all GPUs", "W", False), energy),
)
"""A new one is an entry here."""


def curve(name: str) -> Curve:
    """The curve of that name."""
    return next(c for c in CURVES if c.name == name)


def asked(name: str, question: Mapping[str, Any]) -> None:
    """Refuses what a curve cannot take. Raises InputError."""
    if name == "cost" and question.get("rate") is None:
        raise InputError("the curve of cost and latency is at a rate", "--curve", "add --rate")
    if name != "cost" and question.get("rate") is not None:
        raise InputError(f"the curve of {name} goes over all rates", "--rate", "leave it out")
    if name == "speed" and question.get("tpot_ms") is not None:
        raise InputError("the curve of speed goes over all limits on TPOT", "--tpot-ms", "leave it out")
