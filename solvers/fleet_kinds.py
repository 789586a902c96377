"""Kinds: at most so many kinds of replica in one fleet, as rows of `fleet.py`'s model.

Sets       k in K   kinds of columns (one design at several loads is one kind)
           s in S[k]   the blocks on which columns of k stand: nearly always alike
Data       most[s]   replicas that fit on all nodes, standing as s
           most_kinds    (None: any number)
Choose     u[k]   0 or 1   whether any replica of kind k runs
minimise   kinds: sum(k) u[k], the fewest kinds that serve the demand within the budgets
kind[k,s]  sum(c of k standing as s) n[c]   <= most[s] * u[k]
kinds[all] sum(k) u[k]                      <= most_kinds

One row for all loads of a design, as they share its room: n[c] <= most * u[k] for each column by itself
leaves gaps of 20 to 40 % on fleets with two buckets where this one proves 1 % (docs/decisions/0024-kinds.md).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from solvers.fleet_types import Built, Column, FleetProblem
from solvers.linear import Linear, Term, Var, total

Standing = tuple[tuple[tuple[str, int], int], ...]


def counted(p: FleetProblem) -> bool:
    """Whether kinds are minimised or limited."""
    return p.objective == "kinds" or p.most_kinds is not None


def variables(p: FleetProblem, m: Linear) -> dict[str, Var]:
    """u, where kinds count."""
    return m.integers("u", dict.fromkeys(p.kind(c) for c in p.columns), 1.0) if counted(p) else {}


def add(p: FleetProblem, b: Built) -> None:
    """Rows kind and kinds."""
    if not counted(p):
        return
    alike: dict[tuple[str, Standing], list[str]] = {}
    for c, column in p.columns.items():
        alike.setdefault((p.kind(c), tuple(sorted(column.stands.items()))), []).append(c)
    for (k, s), members in alike.items():
        most = p.most(p.columns[members[0]])
        b.model.add("kind", (k, s), total(b.n[c] for c in members) <= b.u[k] * float(most))
    if p.most_kinds is not None:
        b.model.add("kinds", "all", total([Term(u.column, 1.0) for u in b.u.values()]) <= float(p.most_kinds))


def promising(p: FleetProblem, each: int, also: Collection[str] = ()) -> FleetProblem:
    """`p` with the `each` best kinds of every role on every class, and those of `also`: its answers are
    fleets of `p`, its bounds are not.

    The best are those that serve the whole mix alone with the least of their nodes (watts, where energy is
    the goal): where few kinds may run, each must do all of its role. With 3 of each, fleets of 350 columns on
    four classes take a third of the time and lose 0.5 % at most (docs/decisions/0024-kinds.md).
    """
    prefills = {prefill for prefill, _, _ in p.pairs}
    ranked: dict[tuple[str, frozenset[str]], dict[str, float]] = {}
    for c, column in p.columns.items():
        if p.share.keys() <= column.first.keys():
            role = "mixed" if column.group is None else "prefill" if column.group in prefills else "decode"
            place = ranked.setdefault((role, frozenset(g for g, _ in column.stands)), {})
            place[p.kind(c)] = min(place.get(p.kind(c), float("inf")), _effort(p, column))
    kept = {k for place in ranked.values() for k in sorted(place, key=lambda k: place[k])[:each]} | set(also)
    columns = {c: column for c, column in p.columns.items() if p.kind(c) in kept}
    there = {column.group for column in columns.values()}
    pairs = {key: move for key, move in p.pairs.items() if key[0] in there and key[1] in there}
    return replace(p, columns=columns, pairs=pairs)


def _effort(p: FleetProblem, column: Column) -> float:
    """Share of the nodes, or watts, that one request/s of the whole mix takes."""
    replicas = max(sum(p.share[w] * use.get(w, 0.0) for w in p.share) for use in column.use.values())
    return replicas * column.watts if p.objective == "energy" else replicas / max(p.most(column), 1e-9)
