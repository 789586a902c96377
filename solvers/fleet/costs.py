"""Costs: what a fleet takes of dollars, watts, GPUs or seconds, as terms of the fleet's model.

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

from solvers.fleet import boxes as fleet_boxes
from solvers.fleet import idle as fleet_idle
from solvers.fleet.types import Built, Column, FleetProblem, FleetSolution, What
from solvers.linear import Term, total


def curved(p: FleetProblem) -> dict[str, Column]:
    """Columns with tangents, where what these tell is minimised or limited."""
    bent = p.counts("latency") or p.counts("watts")
    return {c: column for c, column in p.columns.items() if bent and column.tangents}


def tangents_of(p: FleetProblem) -> What:
    """What the problem's tangents tell."""
    return "latency" if p.counts("latency") else "watts"


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


def spending(p: FleetProblem, b: Built, what: str) -> list[Term]:
    """What the fleet takes of dollars an hour, watts, GPUs; of seconds the mean request's at the reference
    rate."""
    if what == "usd_per_hour":
        own = [b.n[c] * column.price for c, column in p.columns.items() if column.price]
        return own + fleet_boxes.dollars(p, b)
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


def spent(p: FleetProblem, s: FleetSolution, what: What) -> float:
    """What a fleet takes of dollars an hour, watts, GPUs or seconds, from its counts and flows."""
    if what == "usd_per_hour":
        own = sum(k * p.columns[c].price for c, k in s.replicas.items())
        return own + fleet_boxes.dollars_of(p, s.nodes)
    if what == "gpus":
        return float(sum(k * p.columns[c].gpus for c, k in s.replicas.items()))
    bent = curved(p) if tangents_of(p) == what else {}
    lifted = sum(highest(bent[c], c, s) for c in s.replicas if c in bent)
    if what == "watts":
        flat = sum(k * p.columns[c].watts for c, k in s.replicas.items() if c not in bent)
        return lifted + flat + fleet_idle.draw_of(p, s.replicas)
    at = sum(v * p.columns[c].latency.get(w, 0.0) for (c, w), v in s.flows.items() if c not in bent)
    moving = sum(v * p.pairs[key].latency for key, v in s.pair_flows.items())
    return (lifted + at + moving) / s.rate if s.rate else 0.0


def highest(column: Column, c: str, s: FleetSolution) -> float:
    """The highest tangent of column `c` at the counts and flows of `s`, never below 0."""
    k = s.replicas[c]
    values = [
        a * k + sum(slope * s.flows.get((c, w), 0.0) for w, slope in slopes.items())
        for a, slopes in column.tangents
    ]
    return max(0.0, *values)
