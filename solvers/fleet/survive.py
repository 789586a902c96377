"""Survive: when any so many nodes are lost, the rest serves its share of the rate; rows of the fleet's
model.

Sets       l in L   losses: a[l,g] nodes of each class g, as many in all as may be lost
           k in K   standings: columns of one kind on the same blocks (one design at several loads)
           s in S[g]   steps of nodes in use: each number below the class's, or some where these are many
Data       share  of the rate that the rest serves         gpus[c,g]  GPUs of a replica of c on class g
           kept[c,l,y]  chance that no node of a replica of c is among a[l,g] drawn from y[g] nodes
           others as in the fleet program
Choose     left[l,c]   real >= 0   replicas of c at work when l is lost: a design may change its load then
           rest f[l,c,w], rest x[l,P,D,w]   real >= 0   their traffic     [1/s]
           few[g,s]    0 or 1      at most s nodes of g are in use
           where sure: each[g,k]   integer >= 0   replicas of k that have a part on one node of g, at most
                       gone[l,k]   0 or 1         all of k may be lost
left[l,k]  sum(c in k) left[l,c]     <= kept[k,l,nodes] * sum(c in k) n[c]
thin[l,g,s]   sum(c) gpus[c,g] * (n[c] - left[l,c])
                  >= sum(c) gpus[c,g] * (1 - kept[c,l,s of g]) * n[c] - all[l,g,s] * (1 - few[g,s])
few[g,s]   y[g] + (s + 1) * few[g,s] >= s + 1
held[g]    y[g]                      <= blocks on g, each a node (or as many as it takes whole)
where sure:
each[g,s,k]   nodes of g in a replica of k * sum(c in k) n[c] <= s * each[g,k] + all[k] * (1 - few[g,s])
sure[l,k]  sum(c in k) (left[l,c] - n[c]) + sum(g) a[l,g] * each[g,k] <= all[k] * gone[l,k]
gone[l,k]  sum(c in k) left[l,c]     <= all[k] * (1 - gone[l,k])
rest busy, rest run, rest serve, rest out, rest in, rest send, rest receive, rest hand, rest take, rest link
           the rows of `flows.py` with left, rest f, rest x and share * rate

Why no fleet that survives is cut off: take the mean over all losses of a[l,g] of its y[g] nodes in use. Rows
are linear, so mean replicas carry mean flows, and kept[c,l,y] * n[c] of c are left on average: the more, the
more nodes. `left` has that for all nodes there are, `thin` for those in use, summed over GPUs; all[l,g,s] is
the most that its right side can be. A fleet that keeps the rows may still fall short, as hardly one loses
just the mean.

Why one surely survives: replicas of one standing are spread evenly over the nodes in use, so that no node has
more than each[g,k] of them. That cuts fleets off whose different replicas stand apart. Plans are made so, and
verified (`planner/plans/losses.py`), for not all sizes can be spread and not all numbers of nodes are steps.

Where nodes are few, each is looked at by itself instead: `nodes.py`.

Source     second-stage rows: N-1 security of power systems, Stott, Alsac and Monticelli, Proceedings of the
           IEEE 75, 1987; the mean over losses and its steps are ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations_with_replacement, islice
from math import prod

from solvers.fleet import flows as fleet_flows
from solvers.fleet import nodes as fleet_nodes
from solvers.fleet.nodes import Standings, parts
from solvers.fleet.types import Built, Column, FleetProblem, Stock
from solvers.linear import Expr, Linear, Term, Var, total

LOSSES = 12
"""Losses that get rows, those of one class first: there are many of several nodes of several classes, and a
bound from some of them is looser and still holds."""

STEPS = 12
"""Nodes up to which each number of them is a step."""

COARSE = 1.2
"""From one step to the next, beyond."""

Loss = Mapping[str, int]
"""Nodes lost of each class."""


def losses(p: FleetProblem) -> list[Loss]:
    """Every way to lose as many nodes as are there to lose, those of one class first; at most LOSSES."""
    return ways(p)[:LOSSES]


def ways(p: FleetProblem) -> list[Loss]:
    """Ways to lose nodes as in `losses`, enough of them that LOSSES is seen to bind."""
    assert p.survive is not None
    used = {g for column in p.columns.values() for g, _ in column.stands}
    stocks = [g for g in p.stocks if g in used]
    each = (Counter(lost) for lost in combinations_with_replacement(stocks, p.survive.nodes))
    real = {
        tuple(sorted((g, min(a, p.stocks[g].nodes)) for g, a in way.items())): None
        for way in sorted(islice(each, LOSSES**2), key=len)
    }
    return [dict(way) for way in real]


def variables(p: FleetProblem, m: Linear) -> dict[tuple[str, int, Hashable], Var]:
    """at, where nodes are looked at by themselves."""
    return fleet_nodes.variables(p, m, p.standings()) if fleet_nodes.apart(p) else {}


def add(p: FleetProblem, b: Built) -> None:
    """All rows, where nodes may be lost."""
    if p.survive is None:
        return
    standings = p.standings()
    if fleet_nodes.apart(p):
        fleet_nodes.add(p, b, standings)
        for nodes in fleet_nodes.losses(p):
            name = " and ".join(f"{g} {i}" for g, i in nodes)
            fleet_nodes.left(p, b, _rest(p, b, name), (name, nodes), standings)
        return
    few = _few(p, b)
    each = _each(p, b, few, standings) if p.survive.sure else {}
    for number, loss in enumerate(losses(p)):
        name = f"{number}: " + " and ".join(f"{a} of {g}" for g, a in loss.items())
        left = _rest(p, b, name)
        _left(p, b, left, (name, loss), standings)
        if each:
            _sure(p, b, left, (name, loss), standings, each)
        for (g, s), v in few.items():
            if g in loss:
                _thin(p, b, left, (name, {g: loss[g]}, s, v))


def _rest(p: FleetProblem, b: Built, name: str) -> dict[str, Var]:
    """Choices and flows of what is left of a loss."""
    assert p.survive is not None
    left = b.model.reals("left", p.columns, {c: p.most(column) for c, column in p.columns.items()})
    flows = fleet_flows.FREE * fleet_flows.most(p)
    f, x = b.model.reals("rest f", b.f, flows), b.model.reals("rest x", b.x, flows)
    fleet_flows.add(p, replace(b, n=left, f=f, x=x), name, p.survive.share)
    return left


def _few(p: FleetProblem, b: Built) -> dict[tuple[str, int], Var]:
    """Choices few, rows few and held."""
    few = b.model.integers("few", [(g, s) for g, stock in p.stocks.items() for s in _steps(stock.nodes)], 1.0)
    for (g, s), v in few.items():
        b.model.add("few", (g, s), total([b.y[g], v * float(s + 1)]) >= float(s + 1))
    for g, stock in p.stocks.items():
        here = [b.n[c] * -float(k) for c, column in p.columns.items() if (k := parts(column, g, stock)[1])]
        b.model.add("held", g, Expr([b.y[g] * 1.0, *here]) <= 0)
    return few


def _steps(nodes: int) -> Iterator[int]:
    """Numbers of nodes below all.

    >>> list(_steps(4)), list(_steps(20))
    ([1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 19])
    """
    s = 1
    while s < nodes:
        yield s
        s = s + 1 if s < STEPS else int(s * COARSE)


def kept(column: Column, stocks: Mapping[str, Stock], loss: Loss) -> float:
    """The chance that no node of a replica is lost, where blocks of one class share a node if they can.

    >>> round(kept(Column("g", 16, {}), {"g": Stock(4, 8)}, {"g": 1}), 3)
    0.5
    """
    chances = []
    for g, a in loss.items():
        span, nodes = parts(column, g, stocks[g])[0], stocks[g].nodes
        if span:
            chances += [max(nodes - span - i, 0) / (nodes - i) if nodes > i else 0.0 for i in range(a)]
    return prod(chances)


def _left(
    p: FleetProblem, b: Built, left: Mapping[str, Var], of: tuple[str, Loss], standings: Standings
) -> None:
    """Rows left."""
    name, loss = of
    for k, members in standings.items():
        share = kept(p.columns[members[0]], p.stocks, loss)
        there = [b.n[c] * -share for c in members] if share else []
        b.model.add("left", (name, k), Expr([left[c] * 1.0 for c in members] + there) <= 0)


def _thin(p: FleetProblem, b: Built, left: Mapping[str, Var], of: tuple[str, Loss, int, Var]) -> None:
    """Row thin."""
    name, loss, s, few = of
    (g,) = loss
    fewer = {**p.stocks, g: replace(p.stocks[g], nodes=s)}
    terms: list[Term] = []
    most = 0.0
    for c, column in p.columns.items():
        if gpus := column.gpus_on(g):
            lost = 1 - kept(column, fewer, loss)
            most = max(most, lost)
            terms += [b.n[c] * (gpus * (1 - lost)), left[c] * -float(gpus)]
    every = most * p.stocks[g].gpus
    b.model.add("thin", (name, g, s), Expr([*terms, few * -every]) >= -every)


def _each(
    p: FleetProblem, b: Built, few: Mapping[tuple[str, int], Var], standings: Standings
) -> dict[tuple[str, Hashable], Var]:
    """Choices and rows each."""
    spread: dict[tuple[str, Hashable], int] = {}
    for k, members in standings.items():
        column = p.columns[members[0]]
        spread |= {(g, k): nodes for g, stock in p.stocks.items() if (nodes := parts(column, g, stock)[1])}
    most = {(g, k): p.most(p.columns[standings[k][0]]) for g, k in spread}
    each = b.model.integers("each", spread, most)
    for (g, k), nodes in spread.items():
        there = [b.n[c] * float(nodes) for c in standings[k]]
        every = float(nodes * most[g, k])
        whole = Expr([*there, each[g, k] * -float(p.stocks[g].nodes)]) <= 0
        b.model.add("each", (g, p.stocks[g].nodes, k), whole)
        for (of, s), v in few.items():
            if of == g:
                row = Expr([*there, each[g, k] * -float(s), v * every]) <= every
                b.model.add("each", (g, s, k), row)
    return each


def _sure(
    p: FleetProblem,
    b: Built,
    left: Mapping[str, Var],
    of: tuple[str, Loss],
    standings: Standings,
    each: Mapping[tuple[str, Hashable], Var],
) -> None:
    """Choices and rows sure and gone: the latter only where more nodes are lost than one, which never takes
    more than there are."""
    name, loss = of
    several = sum(loss.values())
    gone = b.model.integers("gone", standings, 1.0) if several > 1 else {}
    for k, members in standings.items():
        lost = [each[g, k] * float(a) for g, a in loss.items() if (g, k) in each]
        more = [left[c] * 1.0 for c in members]
        every = float(p.most(p.columns[members[0]]))
        freed = [gone[k] * (-every * several)] if gone else []
        b.model.add("sure", (name, k), Expr([*more, *(b.n[c] * -1.0 for c in members), *lost, *freed]) <= 0)
        if gone:
            b.model.add("gone", (name, k), Expr([*more, gone[k] * every]) <= every)
