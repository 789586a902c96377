"""Costs: what a fleet takes of dollars, watts, GPUs or seconds, as terms of `fleet.py`'s model.

Sets       k in K[c]  tangents of a column whose cost is convex in its load: none, or one or more
Data       a[c,k], b[c,k,w]  of watts: [W], [W s]; of latency: [requests], [s]
           (of latency where that is the objective or a budget, else of watts)
Choose     e[c]   real >= 0   what the replicas of c take together    [W], or [requests in the fleet]
cost[c,k]  a[c,k] * n[c] + sum(w) b[c,k,w] * f[c,w]    <= e[c]
           e[c] then stands for watts[c] * n[c], or for sum(w) latency[c,w] * f[c,w]

In the model e[c] is counted in the largest coefficient of its rows, which are then near 1.

Assumes    costs are convex: a tangent never lies above. The value of a fleet is its highest tangent's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from solvers import fleet_idle
from solvers.fleet_types import Built, Column, FleetProblem, FleetSolution
from solvers.linear import Term, total

What = Literal["usd_per_hour", "gpus", "watts", "latency"]

MINIMISED: Mapping[str, What] = {
    "cost": "usd_per_hour",
    "energy": "watts",
    "gpus": "gpus",
    "latency": "latency",
}
"""By objective what is minimised, as budgets name it."""


def curved(p: FleetProblem) -> dict[str, Column]:
    """Columns with tangents, where what these tell is minimised or limited."""
    counts = p.objective in ("latency", "energy") or not {"latency", "watts"}.isdisjoint(p.budget)
    return {c: column for c, column in p.columns.items() if counts and column.tangents}


def tangents_of(p: FleetProblem) -> What:
    """What the problem's tangents tell."""
    return "latency" if p.objective == "latency" or "latency" in p.budget else "watts"


def add(p: FleetProblem, b: Built) -> None:
    """Rows cost."""
    for c in b.e:
        for k, (a, slopes) in enumerate(p.columns[c].tangents):
            flows = [b.f[c, w] * (s * b.unit[w] / b.scale[c]) for w, s in slopes.items() if (c, w) in b.f]
            b.model.add("cost", (c, k), total([b.n[c] * (a / b.scale[c]), *flows]) <= b.e[c])


def scale(column: Column, unit: dict[str, float]) -> float:
    """What 1 of a column's e stands for: its largest coefficient."""
    sizes = [abs(a) for a, _ in column.tangents]
    sizes += [abs(s) * unit[w] for _, slopes in column.tangents for w, s in slopes.items() if w in unit]
    return max(sizes) or 1.0


def goal(p: FleetProblem, b: Built) -> list[Term]:
    """What is minimised."""
    if p.objective == "throughput":
        return [b.rate * -b.reference]
    if p.objective == "kinds":
        return [u * 1.0 for u in b.u.values()]
    if p.objective == "spare":
        works = {(c, w): k.gpus * u / 100 for c, k in p.columns.items() for w, u in k.first.items()}
        work = [b.f[key] * (u * b.unit[key[1]]) for key, u in works.items() if key in b.f]
        return spending(p, b, "gpus") + work
    return spending(p, b, MINIMISED[p.objective])


def spending(p: FleetProblem, b: Built, what: str) -> list[Term]:
    """What the fleet takes of dollars an hour, watts, GPUs; of seconds the mean request's at the reference
    rate."""
    if what == "usd_per_hour":
        own = [b.n[c] * column.price for c, column in p.columns.items() if column.price]
        return own + [b.y[g] * stock.price for g, stock in p.stocks.items() if stock.price]
    if what == "gpus":
        return [b.n[c] * column.gpus for c, column in p.columns.items()]
    bent = b.e if tangents_of(p) == what else {}
    if what == "watts":
        flat = [b.n[c] * column.watts for c, column in p.columns.items() if c not in bent]
        return flat + [e * b.scale[c] for c, e in bent.items()] + fleet_idle.draw(p, b)
    seconds = {(c, w): s for c, k in p.columns.items() if c not in bent for w, s in k.latency.items()}
    at = [b.f[key] * (s * p.share[key[1]]) for key, s in seconds.items() if key in b.f]
    at += [e * (b.scale[c] / b.reference) for c, e in bent.items()]
    return at + [b.x[key] * (pair.latency * p.share[key[2]]) for key, pair in p.pairs.items()]


def watts(p: FleetProblem, s: FleetSolution) -> float:
    """Watts of a fleet, from its counts and flows."""
    bent = curved(p) if tangents_of(p) == "watts" else {}
    return sum(highest(bent[c], c, s) if c in bent else k * p.columns[c].watts for c, k in s.replicas.items())


def latency(p: FleetProblem, s: FleetSolution) -> float:
    """Seconds of the mean request, from counts and flows."""
    bent = curved(p) if tangents_of(p) == "latency" else {}
    at = sum(highest(bent[c], c, s) for c in s.replicas if c in bent)
    at += sum(v * p.columns[c].latency.get(w, 0.0) for (c, w), v in s.flows.items() if c not in bent)
    moving = sum(v * p.pairs[key].latency for key, v in s.pair_flows.items())
    return (at + moving) / s.rate if s.rate else 0.0


def highest(column: Column, c: str, s: FleetSolution) -> float:
    """The highest tangent of column `c` at the counts and flows of `s`, never below 0."""
    k = s.replicas[c]
    values = [
        a * k + sum(slope * s.flows.get((c, w), 0.0) for w, slope in slopes.items())
        for a, slopes in column.tangents
    ]
    return max(0.0, *values)
