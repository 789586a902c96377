"""Kinds: at most so many kinds of replica in one fleet, as rows of the fleet's model.

Sets       k in K   kinds of columns (one design at several loads is one kind)
           s in S[k]   the blocks on which columns of k stand: nearly always alike
Data       most[s]   replicas that fit on all nodes, standing as s
           most_kinds    (None: any number, and no rows)
Choose     u[k]   0 or 1   whether any replica of kind k runs
kind[k,s]  sum(c of k standing as s) n[c]   <= most[s] * u[k]
kinds[all] sum(k) u[k]                      <= most_kinds

One row for all loads of a design, as they share its room: n[c] <= most * u[k] for each column by itself
leaves gaps of 20 to 40 % on fleets with two buckets where this one proves 1 % (docs/decisions/0024-kinds.md).

On many nodes kinds come first: with parts of replicas and nodes in place of whole ones, few numbers are left
to decide, and whole replicas of the kinds that run then lose next to nothing. What the first says no fleet
beats; where the second is not as near to that as was asked for, it counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace

from solvers.fleet.prices import few
from solvers.fleet.types import Built, FleetProblem, FleetSolution
from solvers.linear import Limits, Linear, Var, judge, met, total

NODES = 500
"""Nodes from which on kinds come first: with fewer, whole replicas lose more than gaps that are asked for."""

FIRST = 0.3
"""Part of the time that the kinds get, and then their replicas."""

SHARE = 0.25
"""Part of the gap asked for that either is solved to: what is between the two comes on top."""


def variables(p: FleetProblem, m: Linear) -> dict[str, Var]:
    """u, where kinds count."""
    if p.most_kinds is None:
        return {}
    return m.integers("u", dict.fromkeys(p.kind(c) for c in p.columns), 1.0)


def add(p: FleetProblem, b: Built) -> None:
    """Rows kind and kinds."""
    if p.most_kinds is None:
        return
    for standing, members in p.standings().items():
        most = float(p.most(p.columns[members[0]]))
        b.model.add("kind", standing, total(b.n[c] for c in members) <= b.u[p.kind(members[0])] * most)
    b.model.add("kinds", "all", total(b.u.values()) <= float(p.most_kinds))


def worth(p: FleetProblem) -> bool:
    """Whether kinds are looked for first."""
    return p.most_kinds is not None and sum(stock.nodes for stock in p.stocks.values()) >= NODES


def first(
    p: FleetProblem, built: Built, limits: Limits, solve: Callable[[FleetProblem, Limits], FleetSolution]
) -> FleetSolution | None:
    """The best fleet of the kinds that are best in parts of replicas, by `solve`, under the bound of those;
    None where it is not as near to that as asked for."""
    parts, decide = copy(built.model), {v.column for v in built.u.values()}
    parts.integer = [column in decide for column in range(len(parts.integer))]
    near = replace(limits, gap=SHARE * limits.gap, seconds=FIRST * limits.seconds)
    known, sign = parts.solve(near), p.objective.sign
    if known.values is None or known.bound is None:
        ended = known.status in ("infeasible", "interrupted")
        return FleetSolution(known.status, None, None, known.solver) if ended else None
    run = {kind for kind, u in built.u.items() if known.values[u.column] > 0.5}
    own = few(p, [c for c in p.columns if p.kind(c) in run])
    s = solve(own, near)
    value = None if s.objective is None else sign * s.objective
    if s.status == "interrupted":
        return s
    if value is None or not met(value, known.bound, replace(limits, enough=None)):
        return None
    bound = min(known.bound, value)
    status = judge(value, bound, limits, "time_limit")
    return replace(s, bound=sign * bound, status=status, among=tuple(own.columns))
