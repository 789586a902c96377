"""GPUs in no replica: they draw power all the same, in nodes that are not in use, too.

Data       idle_watts[g]  of a GPU of g in no replica     [W]
Choose     i[g]  real >= 0     GPUs of g in no replica
idle[g]    i[g] + sum(c) gpus_on[c,g] * n[c] == nodes[g] * gpus_per_node[g]

Only where watts are minimised or limited; the program adds sum(g) idle_watts[g] i[g] to those of replicas.
"""

from __future__ import annotations

from collections.abc import Mapping

from solvers.fleet.types import Built, FleetProblem
from solvers.linear import Expr, Linear, Term, Var


def variables(m: Linear, p: FleetProblem) -> dict[str, Var]:
    """i[g] of the stocks whose idle GPUs count."""
    return m.reals("i", [g for g, stock in p.stocks.items() if p.counts("watts") and stock.idle_watts])


def add(p: FleetProblem, b: Built) -> None:
    """Row idle."""
    for g, v in b.idle.items():
        held = [b.n[c] * float(k) for c, column in p.columns.items() if (k := column.gpus_on(g))]
        b.model.add("idle", g, Expr([v * 1.0, *held]).equals(p.stocks[g].gpus))


def draw(p: FleetProblem, b: Built) -> list[Term]:
    """Watts of idle GPUs."""
    return [v * p.stocks[g].idle_watts for g, v in b.idle.items()]


def draw_of(p: FleetProblem, replicas: Mapping[str, int]) -> float:
    """Watts of the idle GPUs beside a fleet's replicas."""
    used = {g: sum(k * p.columns[c].gpus_on(g) for c, k in replicas.items()) for g in p.stocks}
    return sum(stock.idle_watts * (stock.gpus - used[g]) for g, stock in p.stocks.items())
