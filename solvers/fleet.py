"""Fleet: how many replicas of each column to run, on how many nodes, and what traffic each serves.

Sets       c in C   columns: a replica design at one operating point, on one class of nodes; `mixed` serve whole requests,
                    the others belong to a prefill group P or a decode group D
           w in W   request buckets           g in G   node classes        k in K   links
           j        resources of a column: busy time, KV room, ...
Data       use[c,j,w]  replicas of c whose resource j one request/s of w fills      [s]
           gpus[c] [GPU]    watts[c] [W]    latency[c,w] [s]
           nodes[g]  gpus_per_node[g]  domain_nodes[g] (nodes in one scale-up domain)  price[g] [$/h a node]
           share[w]  of all requests (adds up to 1)      demand [request/s], or None: as many as possible
           pairs (P,D,w): bytes[P,D,w] a request moves, links[P,D] it crosses, latency[P,D,w] the move takes
           nic[P], nic[D]  bytes/s of one GPU            link[k]  bytes/s
           budget[b], b in usd_per_hour, gpus, watts
Choose     n[c]      integer >= 0   replicas of c
           y[g]      integer >= 0   nodes of g in use (paid for whole)
           f[c,w]    real >= 0      requests of w at c                   [1/s]
           x[P,D,w]  real >= 0      requests of w prefilled at P, decoded at D     [1/s]
           rate      real >= 0      requests served, all buckets         [1/s]
minimise   one of    throughput -rate    cost sum(g) price[g] y[g]    energy sum(c) watts[c] n[c]
                     gpus sum(c) gpus[c] n[c]    latency sum(c,w) latency f + sum(P,D,w) latency x  (over rate)
busy[c,j]  sum(w) use[c,j,w] * f[c,w]            <= n[c]
serve[w]   sum(c mixed) f[c,w] + sum(P,D) x[P,D,w] == share[w] * rate
out[P,w]   sum(c in P) f[c,w]                    == sum(D) x[P,D,w]
in[D,w]    sum(c in D) f[c,w]                    == sum(P) x[P,D,w]
send[P]    sum(D,w) bytes[P,D,w] * x[P,D,w]      <= nic[P] * sum(c in P) gpus[c] * n[c]
receive[D] sum(P,w) bytes[P,D,w] * x[P,D,w]      <= nic[D] * sum(c in D) gpus[c] * n[c]
link[k]    sum((P,D) over k, w) bytes * x        <= link[k]
nodes[g]   y[g]                                  <= nodes[g]
budget[b]  what the fleet takes of b             <= budget[b]
fit, full, cover: the replicas of g pack into its y[g] nodes, and multi-node ones into domains (`packing.py`)

Assumes    a replica's resources are linear in the mix it serves (docs/architecture.md, Load on a server).
Source     buckets per GPU type: Melange, arXiv:2404.14527; prefill and decode pools: Splitwise, ISCA 2024; the rest is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from solvers import packing
from solvers.linear import Expr, Limits, Linear, Outcome, Status, Term, Var, total

Objective = Literal["throughput", "cost", "energy", "latency", "gpus"]
Pair = tuple[str, str, str]


@dataclass(frozen=True)
class Column:
    """One replica design at one operating point. `use[j]` maps the buckets it may serve to the share of a replica."""

    stock: str
    gpus: int
    use: Mapping[str, Mapping[str, float]]
    watts: float = 0.0
    latency: Mapping[str, float] = field(default_factory=dict)
    group: str | None = None  # None: mixed; else its prefill or decode group
    joined: bool = False  # spans nodes and needs one scale-up domain

    @property
    def buckets(self) -> Sequence[str]:
        return list(next(iter(self.use.values())))


@dataclass(frozen=True)
class Stock:
    """Nodes of one class."""

    nodes: int
    gpus_per_node: int
    price: float | None = None
    domain_nodes: int = 1


@dataclass(frozen=True)
class Transfer:
    """What one request of a pair moves, over which links, and how long that takes."""

    bytes: float
    latency: float = 0.0
    links: tuple[str, ...] = ()
    on_nic: bool = True


@dataclass(frozen=True)
class FleetProblem:
    """Numbers only, keyed by id; units are in the module docstring."""

    columns: Mapping[str, Column]
    stocks: Mapping[str, Stock]
    share: Mapping[str, float]
    objective: Objective
    demand: float | None = None
    pairs: Mapping[Pair, Transfer] = field(default_factory=dict)
    nic: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[str, float] = field(default_factory=dict)
    budget: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FleetSolution:
    """`objective` and `bound` in the problem's own sense; counts without zeros; `point` to start a changed problem from."""

    status: Status
    objective: float | None
    bound: float | None
    solver: str
    replicas: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    flows: Mapping[tuple[str, str], float] = field(default_factory=dict)
    pair_flows: Mapping[Pair, float] = field(default_factory=dict)
    rate: float = 0.0
    point: np.ndarray | None = None


@dataclass(frozen=True)
class Built:
    model: Linear
    n: Mapping[str, Var]
    y: Mapping[str, Var]
    f: Mapping[tuple[str, str], Var]
    x: Mapping[Pair, Var]
    rate: Var


def solve(p: FleetProblem, limits: Limits, start: np.ndarray | None = None) -> FleetSolution:
    """The best fleet found and its bound; `status` tells optimal, within_gap, time_limit, infeasible apart."""
    built = build(p)
    return extract(p, built, built.model.solve(limits, start))


def marginals(p: FleetProblem, limits: Limits) -> dict[tuple[str, str], float]:
    """LP duals of the limits (nodes, links, budgets): change of the objective a unit of the limit, >= 0 = better."""
    outcome = build(p).model.relax(limits)
    families = ("nodes", "link", "budget")
    return {(f, str(k)): -d for (f, k), d in outcome.duals.items() if f in families and d}


def build(p: FleetProblem) -> Built:
    """Write the model: one statement for each line of the docstring, in its order."""
    m = Linear("fleet")
    n = m.integers("n", p.columns)
    y = m.integers("y", p.stocks)
    f = m.reals("f", [(c, w) for c, column in p.columns.items() for w in column.buckets])
    x = m.reals("x", p.pairs)
    rate = m.reals("rate", ["rate"])["rate"]
    built = Built(m, n, y, f, x, rate)

    m.minimise(goal(p, built))
    for c, column in p.columns.items():
        for j, use in column.use.items():
            m.add("busy", (c, j), total(f[c, w] * u for w, u in use.items()) <= n[c])
    _traffic(p, built)
    for g, stock in p.stocks.items():
        m.add("nodes", g, total([y[g]]) <= stock.nodes)
        _pack(p, built, g, stock)
    for b, limit in p.budget.items():
        m.add("budget", b, total(spending(p, built, b)) <= limit)
    return built


def goal(p: FleetProblem, b: Built) -> list[Term]:
    """What is minimised."""
    if p.objective == "throughput":
        return [b.rate * -1.0]
    if p.objective == "latency":
        at = [b.f[c, w] * t for c, column in p.columns.items() for w, t in column.latency.items() if (c, w) in b.f]
        return at + [b.x[key] * pair.latency for key, pair in p.pairs.items()]
    return spending(p, b, {"cost": "usd_per_hour", "energy": "watts", "gpus": "gpus"}[p.objective])


def spending(p: FleetProblem, b: Built, what: str) -> list[Term]:
    """What the fleet takes of dollars an hour, watts or GPUs."""
    if what == "usd_per_hour":
        return [b.y[g] * (stock.price or 0.0) for g, stock in p.stocks.items()]
    return [b.n[c] * (column.watts if what == "watts" else column.gpus) for c, column in p.columns.items()]


def _traffic(p: FleetProblem, b: Built) -> None:
    """Rows serve, out, in, send, receive, link; the rate's floor where a demand is given."""
    m, members = b.model, groups(p)
    served: dict[str, list[Term]] = {w: [b.rate * -s] for w, s in p.share.items()}
    for (c, w), v in b.f.items():
        if p.columns[c].group is None:
            served[w].append(v * 1.0)
    ends: dict[tuple[str, str, str], list[Term]] = {}
    moved: dict[tuple[str, str], list[Term]] = {}
    for (prefill, decode, w), v in b.x.items():
        pair = p.pairs[prefill, decode, w]
        served[w].append(v * 1.0)
        ends.setdefault(("out", prefill, w), []).append(v * -1.0)
        ends.setdefault(("in", decode, w), []).append(v * -1.0)
        carriers = [("send", prefill), ("receive", decode)] if pair.on_nic else []
        for key in carriers + [("link", k) for k in pair.links]:
            moved.setdefault(key, []).append(v * pair.bytes)
    for w, terms in served.items():
        m.add("serve", w, Expr(terms).equals(0))
    for group, columns in members.items():
        side = "out" if any(key[0] == group for key in p.pairs) else "in"
        for w in p.share:
            inside = [b.f[c, w] * 1.0 for c in columns if (c, w) in b.f]
            if inside:
                m.add(side, (group, w), Expr(inside + ends.get((side, group, w), [])).equals(0))
    for (family, key), terms in moved.items():
        if family == "link":
            m.add("link", key, Expr([Term(i, c / p.links[key]) for i, c in terms]) <= 1.0)
        else:
            room = [b.n[c] * (-p.nic[key] * p.columns[c].gpus) for c in members[key]]
            m.add(family, key, Expr([Term(i, c / p.nic[key]) for i, c in terms + room]) <= 0)
    if p.demand is not None:
        i = b.rate.index
        m.lower[i] = p.demand
        m.upper[i] = p.demand if p.objective != "throughput" else m.upper[i]


def groups(p: FleetProblem) -> dict[str, list[str]]:
    """Columns of each prefill and decode group."""
    members: dict[str, list[str]] = {}
    for c, column in p.columns.items():
        if column.group is not None:
            members.setdefault(column.group, []).append(c)
    return members


def _pack(p: FleetProblem, b: Built, g: str, stock: Stock) -> None:
    """Replicas inside a node share it; larger ones take whole nodes, of one domain where they need it."""
    small: dict[int, list[Var]] = {}
    whole: list[Term] = []
    joined: dict[int, list[Var]] = {}
    for c, column in p.columns.items():
        if column.stock != g:
            continue
        if column.gpus <= stock.gpus_per_node:
            small.setdefault(column.gpus, []).append(b.n[c])
            continue
        span = -(-column.gpus // stock.gpus_per_node)
        whole.append(b.n[c] * span)
        if column.joined:
            joined.setdefault(span, []).append(b.n[c])
    node = packing.Bins(stock.gpus_per_node, counted=(b.y[g] * 1.0,), taken=tuple(whole))
    packing.add(b.model, g, small, [node])
    if joined:
        full, rest = divmod(stock.nodes, stock.domain_nodes)
        domains = [packing.Bins(stock.domain_nodes, full)] + ([packing.Bins(rest, 1)] if rest else [])
        packing.add(b.model, f"{g} domains", joined, domains)


def extract(p: FleetProblem, built: Built, outcome: Outcome) -> FleetSolution:
    """Read the counts and recompute the objective from them: the solver's own figure is not trusted."""
    sign = -1.0 if p.objective == "throughput" else 1.0
    bound = None if outcome.bound is None else sign * outcome.bound
    if outcome.values is None:
        return FleetSolution(outcome.status, None, bound, outcome.solver)
    replicas, nodes = outcome.counts(built.n), outcome.counts(built.y)
    flows = {key: v for key, v in outcome.of(built.f).items() if v > 1e-12}
    pair_flows = {key: v for key, v in outcome.of(built.x).items() if v > 1e-12}
    rate = float(outcome.values[built.rate.index])
    value = sum(c * float(outcome.values[i]) for i, c in goal(p, built))
    if p.objective in ("cost", "energy", "gpus"):
        rounded = {v.index: k for family, k_of in ((built.n, replicas), (built.y, nodes)) for c, v in family.items() if (k := k_of.get(c, 0))}
        value = sum(c * rounded.get(i, 0) for i, c in goal(p, built))
    objective = sign * value
    if bound is not None:  # a bound passed by less than the tolerance of floating point is met
        bound = max(bound, objective) if sign < 0 else min(bound, objective)
    return FleetSolution(
        outcome.status, objective, bound, outcome.solver, replicas, nodes, flows, pair_flows, rate, outcome.values
    )


def balance(p: FleetProblem, s: FleetSolution, limits: Limits) -> FleetSolution:
    """The same fleet and rate with its traffic spread so that the fullest resource is as free as can be.

    A vertex of the MILP may fill one replica and leave its twin idle; queues are shortest when all are equally busy.
    """
    kept = {c: column for c, column in p.columns.items() if c in s.replicas}
    present = {column.group for column in kept.values()}
    fixed = replace(
        p,
        columns=kept,
        pairs={key: t for key, t in p.pairs.items() if key[0] in present and key[1] in present},
        demand=s.rate,
        objective="gpus",
        budget={},
    )
    b = build(fixed)
    level = b.model.reals("level", ["level"], 1.0)["level"]
    for c, v in b.n.items():
        b.model.lower[v.index] = b.model.upper[v.index] = s.replicas[c]
        for j, use in kept[c].use.items():
            row = total(b.f[c, w] * u for w, u in use.items())
            b.model.add("level", (c, j), row <= level * float(s.replicas[c]))
    b.model.minimise([level * 1.0])
    outcome = b.model.solve(limits)
    if outcome.values is None:
        return s
    flows = {key: v for key, v in outcome.of(b.f).items() if v > 1e-12}
    pair_flows = {key: v for key, v in outcome.of(b.x).items() if v > 1e-12}
    return replace(s, flows=flows, pair_flows=pair_flows)
