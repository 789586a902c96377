"""Fleet: how many replicas of each column to run, on how many nodes, and what traffic each serves.

Sets       c in C   columns: a replica design at one operating point, on one class of nodes; `mixed` serve
                    whole requests, the others belong to a prefill group P or a decode group D
           w in W   request buckets           g in G   node classes        k in K   links
           j        resources of a column: busy time, KV room, ...
Data       use[c,j,w]  replicas of c whose resource j one request/s of w fills      [s]
           gpus[c] [GPU]    watts[c] [W]    price[c] [$/h, beside its nodes]    latency[c,w] [s]    kind[c]
           least[c]  requests/s that each replica of c serves at least: above 0 where c is of some loads
           its blocks: GPUs side by side on a class; one, or several where stages stand on several classes
           sent[c,k,w]  bytes that a request moves over link k inside a replica
           nodes[g]  gpus_per_node[g]  domain_nodes[g] (nodes in one scale-up domain)  price[g] [$/h a node]
           idle_watts[g] of a GPU in no replica, in nodes that are not in use, too
           share[w]  of all requests (adds up to 1)
           demand [request/s]: what must be served (throughput: at least that much, or None)
           pairs (P,D,w): bytes[P,D,w] a request moves, links[P,D] it crosses, latency[P,D,w] the move takes
           nic[P], inside[P], of D likewise  bytes/s of one GPU: over NICs, in its node    link[k]  bytes/s
           budget[b], b in usd_per_hour, gpus, watts, latency (of the mean request)
Choose     n[c]      integer >= 0   replicas of c
           y[g]      integer >= 0   nodes of g in use (paid for whole)
           f[c,w]    real >= 0      requests of w at c                   [1/s]
           x[P,D,w]  real >= 0      requests of w prefilled at P, decoded at D     [1/s]
           rate      real >= 0      requests served, all buckets         [1/s]
           i[g]      real >= 0      GPUs of g in no replica, where watts are counted
minimise   one of    throughput -rate    energy sum(c) watts[c] n[c] + sum(g) idle_watts[g] i[g]
                     cost sum(g) price[g] y[g] + sum(c) price[c] n[c]    gpus sum(c) gpus[c] n[c]
                     latency (sum(c,w) latency f + sum(P,D,w) latency x) / rate, the mean over requests [s]
                     spare sum(c) gpus[c] (n[c] + sum(w) use[c,1st,w] f[c,w] / 100): fewest GPUs, then least
                     work on them (`goals.py`)
busy[c,j]  sum(w) use[c,j,w] * f[c,w]            <= n[c]
run[c,w]   f[c,w] <= most share[w] * n[c] where w takes (next to) nothing of c; most: the demand, or what
           is beyond every rate
load[c]    sum(w) f[c,w] >= least[c] * n[c]  where that is not 0
serve[w]   sum(c mixed) f[c,w] + sum(P,D) x[P,D,w] == share[w] * rate
out[P,w]   sum(c in P) f[c,w]                    == sum(D) x[P,D,w]
in[D,w]    sum(c in D) f[c,w]                    == sum(P) x[P,D,w]
send[P]    sum(D,w) bytes[P,D,w] * x[P,D,w]      <= nic[P] * sum(c in P) gpus[c] * n[c]
receive[D] sum(P,w) bytes[P,D,w] * x[P,D,w]      <= nic[D] * sum(c in D) gpus[c] * n[c]
hand[P]    as send[P], of pairs that stay inside nodes, with inside[P]
take[D]    as receive[D], likewise
link[k]    sum((P,D) over k, w) bytes * x + sum(c,w) sent[c,k,w] * f[c,w]    <= link[k]
nodes[g]   y[g]                                  <= nodes[g]
idle[g]    i[g] + GPUs of g in replicas          == nodes[g] * gpus_per_node[g]
budget[b]  what the fleet takes of b             <= budget[b]
whole[g]   y[g] == nodes its replicas take, where no two replicas can share a node; otherwise
fit, full, cover   the replicas of g pack into its y[g] nodes, and multi-node ones into domains (`packing.py`)
wait, mean   what requests of a bucket wait for in the mean (`waits.py`)
cost   watts or latency that grow with the load, by their tangents (`costs.py`)
feed   what the GPUs of a rack or zone may draw together (`feeds.py`)
paid   nodes whose parts are several stocks are paid once (`boxes.py`)
kind, kinds   at most so many kinds of replica (`kinds.py`)
busy to link  are written in `flows.py`; again for what is left where nodes may be lost
              (`survive.py`)

In the model f and x are fractions of what a bucket asks for at the reference rate, and `rate` one of that
rate: all coefficients are then near 1, for replicas of a thousandth and of 1e5 requests/s alike.

Of many columns those are left out that no fleet near the best can have (`prices.py`).

Assumes    a replica's resources are linear in the mix it serves (docs/architecture.md, Load on a server).
Source buckets by GPU type: Melange, arXiv:2404.14527; prefill, decode pools: Splitwise, ISCA 2024; rest: ours
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from solvers import packing
from solvers.fleet import boxes as fleet_boxes
from solvers.fleet import costs as fleet_costs
from solvers.fleet import feeds as fleet_feeds
from solvers.fleet import flows as fleet_flows
from solvers.fleet import goals as fleet_goals
from solvers.fleet import idle as fleet_idle
from solvers.fleet import kinds as fleet_kinds
from solvers.fleet import prices as fleet_prices
from solvers.fleet import survive as fleet_survive
from solvers.fleet import waits as fleet_waits
from solvers.fleet.extract import extract
from solvers.fleet.flows import FREE
from solvers.fleet.reference import reference
from solvers.fleet.types import Built, FleetProblem, FleetSolution, Stock
from solvers.linear import INF, Expr, Floats, Limits, Linear, StatedTooLate, Term, Var, glop, total

CLASSES = 8
"""Classes of nodes up to which the nodes that are paid decide (`solvers/linear/deciding.py`): with 15 offers
of 1 to 8 GPUs there are too many sets of nodes near the cheapest."""


def solve(p: FleetProblem, limits: Limits, start: Floats | None = None) -> FleetSolution:
    """The best fleet found and its bound: `status` tells how well it is proven. Its statement takes part of
    the time."""
    until = time.perf_counter() + limits.seconds
    try:
        built = build(p, until)
    except StatedTooLate:
        return FleetSolution("time_limit", None, None, "none in time")
    limits = replace(limits, seconds=max(until - time.perf_counter(), fleet_prices.LEAST_S))
    if fleet_prices.worth(p) and start is None:
        try:
            known = fleet_prices.prices(built, limits)
        except KeyboardInterrupt:
            return FleetSolution("interrupted", None, None, glop.NAME)
        if known is not None and p.survive is not None:  # then a kind may change its load
            known = fleet_prices.by_kinds(p, known)
        if known is not None:
            return fleet_prices.searched(p, known, limits, _solve)
    return _searched(p, built, limits, start)


def _solve(p: FleetProblem, limits: Limits) -> FleetSolution:
    return _searched(p, build(p), limits)


def _searched(p: FleetProblem, built: Built, limits: Limits, start: Floats | None = None) -> FleetSolution:
    """Kinds first where that is quicker; where it leads nowhere, all at once in the time that is left."""
    until = time.perf_counter() + limits.seconds
    if fleet_kinds.worth(p) and start is None:
        found = fleet_kinds.first(p, built, limits, at_once)
        if found is not None:
            return found
        limits = replace(limits, seconds=max(until - time.perf_counter(), fleet_prices.LEAST_S))
    return extract(p, built, built.model.solve(limits, start))


def at_once(p: FleetProblem, limits: Limits) -> FleetSolution:
    """By branch and bound on all integers alike."""
    built = build(p)
    return extract(p, built, built.model.solve(limits))


def relaxed(p: FleetProblem, limits: Limits) -> float | None:
    """The objective with fractional replicas and nodes: what no fleet can beat; None where nothing serves, or
    the time ended first. Raises KeyboardInterrupt."""
    bound = build(p).model.relax(limits).bound
    return None if bound is None else p.objective.sign * bound


def ceiling(p: FleetProblem) -> float:
    """Requests/s that no fleet serves, found without a solver: the upper limit of `rate` in the program."""
    return FREE * fleet_flows.most(p) * reference(p)


def build(p: FleetProblem, until: float = INF) -> Built:
    """Write the model: one statement for each line of the docstring, in its order. Raises StatedTooLate where
    that takes longer than `until` (`time.perf_counter`)."""
    m, at = Linear("fleet", until), reference(p)
    unit = {w: share * at for w, share in p.share.items()}
    most = fleet_flows.most(p)
    n_most = {c: p.most(column) for c, column in p.columns.items()}
    n = m.integers("n", p.columns, n_most)
    y = m.integers("y", p.stocks)
    served = [(c, w) for c, column in p.columns.items() for w in column.buckets if w in unit]
    f = m.reals("f", served, FREE * most)
    x = m.reals("x", p.pairs, FREE * most)
    idle = fleet_idle.variables(m, p)
    rate = m.reals("rate", ["rate"], FREE * most)["rate"]
    scale = {c: fleet_costs.scale(column, unit) for c, column in fleet_costs.curved(p).items()}
    e = m.reals("e", scale, {c: n_most[c] + FREE * most * len(unit) for c in scale})
    kinds, held = fleet_kinds.variables(p, m), fleet_survive.variables(p, m)
    paid, waiting = fleet_boxes.variables(m, p), fleet_waits.variables(p, m, FREE * most)
    built = Built(m, n, y, f, x, idle, rate, at, unit, e, scale, kinds, held, paid, waiting)

    m.minimise(p.objective.terms(p, built))
    if p.objective.spends == "usd_per_hour" and len(p.stocks) <= CLASSES:
        m.decide(y.values(), rate)
    for add in ROWS:
        add(p, built)
    return built


def _demand(p: FleetProblem, b: Built) -> None:
    """The rate's limits where a demand is given."""
    if p.demand is not None:
        b.model.lower[b.rate.column] = p.demand / b.reference
        if not p.objective.more:
            b.model.fix(b.rate, p.demand / b.reference)


def _nodes(p: FleetProblem, b: Built) -> None:
    """Rows nodes, and those of packing."""
    for g, stock in p.stocks.items():
        b.model.add("nodes", g, total([b.y[g]]) <= stock.nodes)
        _pack(p, b, g, stock)


def _budgets(p: FleetProblem, b: Built) -> None:
    """Rows budget."""
    for what, limit in p.budget.items():
        most_of_it = b.rate * limit if what == "latency" else limit  # seconds of one request, at any rate
        b.model.add("budget", what, total(fleet_costs.spending(p, b, what)) <= most_of_it)


def _pack(p: FleetProblem, b: Built, g: str, stock: Stock) -> None:
    """Replicas inside a node share it; larger ones take whole nodes, of one domain where they need it."""
    small: dict[int, list[Var]] = {}
    whole: list[Term] = []
    joined: dict[int, list[Var]] = {}
    for c, column in p.columns.items():
        for (of, gpus), times in column.stands.items():
            if of != g:
                continue
            span = stock.span(gpus)
            if not span:
                small.setdefault(gpus, []).extend([b.n[c]] * times)
                continue
            whole.append(b.n[c] * (span * times))
            if column.joined:
                joined.setdefault(span, []).append(b.n[c])
    if all(2 * gpus > stock.gpus_per_node for gpus in small):  # no two fit into one node
        alone = [v * 1.0 for same in small.values() for v in same]
        b.model.add("whole", g, Expr(alone + whole).equals(b.y[g]))
    else:
        node = packing.Bins(stock.gpus_per_node, counted=(b.y[g] * 1.0,), taken=tuple(whole))
        packing.add(b.model, g, small, [node])
    if joined:
        full, rest = divmod(stock.nodes, stock.domain_nodes)
        domains = [packing.Bins(stock.domain_nodes, full)] + ([packing.Bins(rest, 1)] if rest else [])
        packing.add(b.model, f"{g} domains", joined, domains)


def marginals(p: FleetProblem, limits: Limits) -> dict[tuple[str, str], float]:
    """LP duals of nodes, links, budgets and feeds: what one unit more is worth in the objective; none where
    the time ended before they were the best. Raises KeyboardInterrupt."""
    built = build(p)
    for v in built.n.values():  # these limits follow from `nodes`, whose duals they would take
        built.model.upper[v.column] = INF
    outcome = built.model.relax(limits)
    worth, duals = dict[tuple[str, str], float](), outcome.duals if outcome.status == "optimal" else {}
    for (family, key), dual in duals.items():
        if family == "nodes":  # a node more has GPUs that rest, too
            dual = min(dual + outcome.duals.get(("idle", key), 0.0) * p.stocks[str(key)].gpus_per_node, 0.0)
        if family in ("nodes", "link", "budget", "feed") and dual:
            size = {"link": p.links, "feed": p.feeds}.get(family, {}).get(str(key), 1.0)
            worth[family, str(key)] = -dual / size
    return worth


def _only(p: FleetProblem, replicas: Mapping[str, int]) -> FleetProblem:
    """The problem with the columns of these replicas alone, all of them there: none may be lost."""
    kept = {c: column for c, column in p.columns.items() if c in replicas}
    present = {column.group for column in kept.values()}
    pairs = {key: t for key, t in p.pairs.items() if key[0] in present and key[1] in present}
    return replace(p, columns=kept, pairs=pairs, survive=None)


def carried(
    p: FleetProblem, replicas: Mapping[str, int], limits: Limits
) -> tuple[FleetProblem, FleetSolution]:
    """The most that just these replicas serve, spread as in `balance`, and the problem that says so: without
    budgets, which are those of the fleet that they are left of. Raises KeyboardInterrupt."""
    own = replace(
        _only(p, replicas), objective=fleet_goals.THROUGHPUT, demand=None, budget={}, most_kinds=None
    )
    b = build(own)
    for c, v in b.n.items():
        b.model.fix(v, replicas[c])
    return own, balance(own, extract(own, b, b.model.solve(limits)).unbroken(), limits)


def balance(p: FleetProblem, s: FleetSolution, limits: Limits) -> FleetSolution:
    """The same fleet and rate with its traffic spread so that the fullest resource is as free as can be: a
    vertex of the MILP may fill one replica and leave its twin idle. Where latency is the objective, or energy
    that grows with the load, or waits are limited, the flows are the answer. Raises KeyboardInterrupt."""
    bent = fleet_costs.curved(p)
    if not s.rate or p.objective.spends == "latency" or (p.objective.spends == "watts" and bent) or p.waits:
        return s
    budget = {b: x for b, x in p.budget.items() if b == "latency" or (b == "watts" and bent)}
    fixed = replace(_only(p, s.replicas), demand=s.rate, objective=fleet_goals.GPUS, budget=budget)
    b = build(fixed)
    level = b.model.reals("level", ["level"])["level"]
    for c, v in b.n.items():
        b.model.fix(v, s.replicas[c])
        for j, use in p.columns[c].use.items():
            row = total(b.f[c, w] * (u * b.unit[w]) for w, u in use.items() if w in b.unit)
            b.model.add("level", (c, j), row <= level * float(s.replicas[c]))
    b.model.minimise([level * 1.0])
    outcome = b.model.relax(limits)
    if outcome.values is None:
        return s
    spread = extract(fixed, b, outcome)
    return replace(s, flows=spread.flows, pair_flows=spread.pair_flows)


ROWS: tuple[Callable[[FleetProblem, Built], None], ...] = (
    fleet_flows.add,
    _demand,
    _nodes,
    fleet_idle.add,
    _budgets,
    fleet_feeds.add,
    fleet_costs.add,
    fleet_waits.add,
    fleet_kinds.add,
    fleet_boxes.add,
    fleet_survive.add,
)
"""What adds the rows of the docstring, in its order."""
