"""Boxes: stocks that are parts of the same nodes, which are paid once for all, as rows of the fleet's model.

Sets       b in B   boxes: some stocks each, with the nodes and the price of the whole
Choose     q[b]   real >= 0   nodes of b that are paid
paid[g]    y[g]                                  <= q[b], for every stock g of b

Only where dollars are minimised or limited; price[b] * q[b] then stands for price[g] * y[g] of its stocks.
"""

from __future__ import annotations

from collections.abc import Mapping

from solvers.fleet.types import Built, FleetProblem
from solvers.linear import Linear, Term, Var, total


def boxes(p: FleetProblem) -> dict[str, list[str]]:
    """Stocks of each box."""
    found: dict[str, list[str]] = {}
    for g, stock in p.stocks.items():
        if stock.box is not None:
            found.setdefault(stock.box, []).append(g)
    return found


def variables(m: Linear, p: FleetProblem) -> dict[str, Var]:
    """q, where dollars count."""
    found = boxes(p)
    if not found or not p.counts("usd_per_hour"):
        return {}
    return m.reals("q", found, {b: float(max(p.stocks[g].nodes for g in of)) for b, of in found.items()})


def add(p: FleetProblem, b: Built) -> None:
    """Rows paid."""
    for box, of in boxes(p).items() if b.paid else ():
        for g in of:
            b.model.add("paid", g, total([b.y[g]]) <= b.paid[box])


def dollars(p: FleetProblem, b: Built) -> list[Term]:
    """Dollars an hour of nodes: of boxes once, of other stocks each."""
    price = {box: max(p.stocks[g].price or 0.0 for g in of) for box, of in boxes(p).items()}
    own = [b.y[g] * s.price for g, s in p.stocks.items() if s.price and s.box is None]
    return own + [q * price[box] for box, q in b.paid.items() if price[box]]


def dollars_of(p: FleetProblem, nodes: Mapping[str, int]) -> float:
    """The same of nodes in use."""
    paid: dict[str, float] = {}
    for g, k in nodes.items():
        stock = p.stocks[g]
        name = g if stock.box is None else f"box {stock.box}"
        paid[name] = max(paid.get(name, 0.0), k * (stock.price or 0.0))
    return sum(paid.values())
