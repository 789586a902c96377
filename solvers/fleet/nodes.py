"""Nodes: where few may be lost, each by itself: which replicas stand on it, and what is left without it. Rows
of the fleet's model, in place of the mean over losses of `survive.py`, whose words these are.

Sets       (g,i)  node i of class g        l in L   losses: sets of so many nodes
Data       parts[g,k]  nodes of g that a replica of standing k takes: those that it takes whole, or 1 for each
           block: from 1 on where several of its blocks may share one
           takes[g,k]  GPUs of g that it takes on each of them at least
Choose     at[g,i,k]   integer >= 0   replicas of k that have a part on the node, or more
           on[g,i]     0 or 1         the node is in use
at[g,k]    sum(i) at[g,i,k]                     >= parts[g,k] * sum(c in k) n[c]
room[g,i]  sum(k) takes[g,k] * at[g,i,k]        <= gpus_per_node[g] * on[g,i]
on[g]      sum(i) on[g,i]                       <= y[g]
first[g,i] on[g,i+1]                            <= on[g,i]
left[l,k]  sum(c in k) left[l,c]                <= sum(c in k) n[c] - sum((g,i) in l) at[g,i,k]
           of replicas with several parts, which two nodes may share, a row for each node of l

Exact for one lost node and replicas of one block; else no fleet that survives is cut off. Where the fleet
stands goes with the solution: plans are placed so.

Source     ours.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations, pairwise
from math import comb

from solvers.fleet.types import Built, Column, FleetProblem, Stock
from solvers.linear import Expr, Linear, Var, total

LOSSES = 12
"""Sets of nodes up to which each is looked at by itself."""

SIZE = 4000
"""Columns times losses up to which that takes seconds."""

Standings = Mapping[Hashable, Sequence[str]]
"""Columns of each standing."""

Node = tuple[str, int]


def apart(p: FleetProblem) -> bool:
    """Whether nodes are few enough to be looked at by themselves; who wants to be sure takes the sooner way,
    by replicas that are spread evenly."""
    if p.survive is None or p.survive.sure:
        return False
    nodes = sum(stock.nodes for stock in p.stocks.values())
    many = comb(nodes, min(p.survive.nodes, nodes))
    return many <= LOSSES and many * len(p.columns) <= SIZE


def losses(p: FleetProblem) -> list[tuple[Node, ...]]:
    """Every set of nodes that may be lost: all, where they are no more than may be."""
    assert p.survive is not None
    nodes = [(g, i) for g, stock in p.stocks.items() for i in range(stock.nodes)]
    return list(combinations(nodes, min(p.survive.nodes, len(nodes))))


def variables(p: FleetProblem, m: Linear, standings: Standings) -> dict[tuple[str, int, Hashable], Var]:
    """at, where nodes are looked at by themselves."""
    most = {
        (g, i, k): stock.gpus_per_node // max(_takes(column, g, stock), 1)
        for k, members in standings.items()
        for g, stock in p.stocks.items()
        if parts(column := p.columns[members[0]], g, stock)[1]
        for i in range(stock.nodes)
    }
    return m.integers("at", most, {key: float(k) for key, k in most.items()})


def parts(column: Column, g: str, stock: Stock) -> tuple[int, int]:
    """Nodes of `g` that one replica takes at least, and at most."""
    spans = [(stock.span(gpus), times) for (of, gpus), times in column.stands.items() if of == g]
    whole = sum(span * times for span, times in spans)
    return max(whole, bool(spans)), sum(max(span, 1) * times for span, times in spans)


def _takes(column: Column, g: str, stock: Stock) -> int:
    """GPUs that one replica takes on each of them."""
    return min((min(gpus, stock.gpus_per_node) for of, gpus in column.stands if of == g), default=0)


def add(p: FleetProblem, b: Built, standings: Standings) -> None:
    """Rows at, room, on and first."""
    on = b.model.integers("on", [(g, i) for g, stock in p.stocks.items() for i in range(stock.nodes)], 1.0)
    for g, stock in p.stocks.items():
        nodes = range(stock.nodes)
        here = {k: p.columns[members[0]] for k, members in standings.items() if (g, 0, k) in b.at}
        for k, column in here.items():
            least = float(parts(column, g, stock)[0])
            there = [b.at[g, i, k] * 1.0 for i in nodes]
            b.model.add("at", (g, k), Expr([*there, *(b.n[c] * -least for c in standings[k])]) >= 0)
        for i in nodes:
            taken = [b.at[g, i, k] * float(_takes(column, g, stock)) for k, column in here.items()]
            b.model.add("room", (g, i), Expr([*taken, on[g, i] * -float(stock.gpus_per_node)]) <= 0)
        b.model.add("on", g, total(on[g, i] for i in nodes) <= b.y[g])
        for i, after in pairwise(nodes):
            b.model.add("first", (g, i), total([on[g, after]]) <= on[g, i])


def left(
    p: FleetProblem, b: Built, rest: Mapping[str, Var], of: tuple[str, Sequence[Node]], standings: Standings
) -> None:
    """Row left of a loss, with its name."""
    name, loss = of
    for k, members in standings.items():
        both = [rest[c] * 1.0 for c in members] + [b.n[c] * -1.0 for c in members]
        gone = [b.at[g, i, k] for g, i in loss if (g, i, k) in b.at]
        several = sum(parts(p.columns[members[0]], g, stock)[1] for g, stock in p.stocks.items()) > 1
        for j, each in enumerate([[v] for v in gone] if several and gone else [gone]):
            b.model.add("left", (name, k, j), Expr([*both, *(v * 1.0 for v in each)]) <= 0)
