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
"""

from __future__ import annotations

from solvers.fleet.types import Built, FleetProblem
from solvers.linear import Linear, Var, total


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
