"""Union: several fleet problems on the same stocks, budgets and links as one; its fleet taken apart again.

Sets       m in M   parts: fleet problems with columns C[m], buckets W[m], groups and pairs of their own, and
                    stocks g, links k, budgets b and feeds r that are the same in all
Data       weight[m]   requests of m as a part of all                 (adds up to 1)
           demand      requests/s of all parts together, or None
The union  has all columns, groups, pairs and buckets, each under its part's number, and
           share[m,w] = weight[m] * share[w]
           so that part m serves weight[m] * rate, its buckets in their shares of that: throughput is the
           largest common scale of all parts, whose ratios stay.
serve[m,w] sum(c in C[m]) f[c,w] + ...  == weight[m] * share[w] * rate           (of `fleet.py`, as all rows)
           stock, nodes, link, budget and feed rows run over the columns and pairs of all parts together.

A fleet of the union is one fleet for each part such that together they keep what is shared: its optimum is
that of all parts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from solvers import fleet
from solvers.fleet.types import Column, FleetProblem, FleetSolution, Pair, Transfer
from solvers.linear import INF, Limits

SHARED = ("stocks", "budget", "objective", "feeds")
"""What all parts must have alike."""


def named(part: int, name: str) -> str:
    """The name that a part's column, bucket or group has in the union.

    >>> named(1, "h100 tp2"), own("1 h100 tp2")
    ('1 h100 tp2', (1, 'h100 tp2'))
    """
    return f"{part} {name}"


def own(name: str) -> tuple[int, str]:
    """The part of a name of the union, and what it is called there."""
    part, _, rest = name.partition(" ")
    return int(part), rest


def own_name(name: str) -> str:
    """What a name of the union is called in its part."""
    return own(name)[1]


def union(parts: Sequence[FleetProblem], weights: Sequence[float], demand: float | None) -> FleetProblem:
    """One problem for all parts, `demand` requests/s in all. Raises ValueError where they do not share what
    is shared."""
    first = parts[0]
    for name in SHARED:
        if any(getattr(p, name) != getattr(first, name) for p in parts):
            raise ValueError(f"parts of a union differ in their {name}")
    columns, share, kinds = dict[str, Column](), dict[str, float](), dict[str, str]()
    pairs, nic, links = dict[Pair, Transfer](), dict[str, float](), dict[str, float]()
    inside = dict[str, float]()
    for m, (p, weight) in enumerate(zip(parts, weights, strict=True)):
        columns |= {named(m, c): _renamed(column, partial(named, m)) for c, column in p.columns.items()}
        share |= {named(m, w): weight * part for w, part in p.share.items()}
        kinds |= {named(m, c): named(m, kind) for c, kind in p.kinds.items()}
        pairs |= {(named(m, a), named(m, b), named(m, w)): t for (a, b, w), t in p.pairs.items()}
        nic |= {named(m, group): each for group, each in p.nic.items()}
        inside |= {named(m, group): each for group, each in p.inside.items()}
        links |= p.links
    return FleetProblem(
        *(columns, first.stocks, share, first.objective, demand, pairs, nic, links, first.budget, kinds),
        feeds=first.feeds,
        inside=inside,
    )


def _renamed(column: Column, called: Callable[[str], str]) -> Column:
    """A column with its buckets and group as they are `called` elsewhere."""

    def here(row: Mapping[str, float]) -> dict[str, float]:
        return {called(w): x for w, x in row.items()}

    return replace(
        column,
        use={j: here(row) for j, row in column.use.items()},
        latency=here(column.latency),
        group=None if column.group is None else called(column.group),
        sent={link: here(row) for link, row in column.sent.items()},
        tangents=[(start, here(slopes)) for start, slopes in column.tangents],
    )


def parts_of(s: FleetSolution, weights: Sequence[float]) -> list[FleetSolution]:
    """The fleet of each part, under the part's own names. Nodes, objective and bound are those of all: they
    cannot be divided."""
    found = [
        replace(s, replicas={}, flows={}, pair_flows={}, point=None, among=(), least={}) for _ in weights
    ]
    replicas = [dict[str, int]() for _ in weights]
    flows = [dict[tuple[str, str], float]() for _ in weights]
    pairs = [dict[Pair, float]() for _ in weights]
    for name, k in s.replicas.items():
        m, c = own(name)
        replicas[m][c] = k
    for (name, w), flow in s.flows.items():
        m, c = own(name)
        flows[m][c, own_name(w)] = flow
    for (a, b, w), flow in s.pair_flows.items():
        m, prefill = own(a)
        pairs[m][prefill, own_name(b), own_name(w)] = flow
    return [
        replace(each, replicas=replicas[m], flows=flows[m], pair_flows=pairs[m], rate=weights[m] * s.rate)
        for m, each in enumerate(found)
    ]


def with_flows(s: FleetSolution, parts: Sequence[FleetSolution]) -> FleetSolution:
    """The fleet of the union with traffic as the parts have spread it."""
    flows, pairs = dict[tuple[str, str], float](), dict[Pair, float]()
    for m, part in enumerate(parts):
        flows |= {(named(m, c), named(m, w)): x for (c, w), x in part.flows.items()}
        pairs |= {(named(m, a), named(m, b), named(m, w)): x for (a, b, w), x in part.pair_flows.items()}
    return replace(s, flows=flows, pair_flows=pairs)


def part_of(p: FleetProblem, s: FleetSolution, m: int, weight: float) -> FleetProblem:
    """What part `m` has of the union's problem: the columns that `s` runs, under their own names, and the
    pairs that they make; stocks, links and budgets whole."""
    columns = {own_name(c): _renamed(p.columns[c], own_name) for c in s.replicas if own(c)[0] == m}
    groups = {column.group for column in columns.values()}
    pairs = dict[Pair, Transfer]()
    for (a, b, w), transfer in p.pairs.items():
        if own(a)[0] == m and {own_name(a), own_name(b)} <= groups:
            pairs[own_name(a), own_name(b), own_name(w)] = transfer
    share = {own_name(w): x / weight for w, x in p.share.items() if own(w)[0] == m}
    return replace(
        p,
        columns=columns,
        share=share,
        demand=None if p.demand is None else weight * p.demand,
        pairs=pairs,
        nic={own_name(g): x for g, x in p.nic.items() if own(g)[0] == m},
        inside={own_name(g): x for g, x in p.inside.items() if own(g)[0] == m},
        kinds={own_name(c): own_name(p.kind(c)) for c in s.replicas if own(c)[0] == m},
        most_kinds=None,
    )


def dearness(p: FleetProblem, limits: Limits) -> dict[str, float]:
    """What one more request/s of each bucket, beside the mix, takes from the objective: duals of the
    relaxation's `serve` rows; empty where it has no answer in time. In dollars an hour, ..., or requests/s of
    all. Raises KeyboardInterrupt."""
    built = fleet.build(p)
    for v in built.n.values():  # limits that follow from `nodes`, whose duals they would take
        built.model.upper[v.column] = INF
    outcome = built.model.relax(limits)
    if outcome.status != "optimal":
        return {}
    return {
        str(key): dual / built.unit[str(key)]
        for (family, key), dual in outcome.duals.items()
        if family == "serve"
    }
