"""Prices: what a fleet with one replica of a column loses against the best fractional one, at least; columns
that lose too much are left out before integers are searched for.

Rows are shared by columns, or one column's own (`busy`, `run`, `load`, `cost`, `wait`). Let z be the optimum
of the relaxation and y its duals. With those of the shared rows kept,

    r[c] = min  reduced costs of n[c], f[c,w], e[c], z[c,l]    over c's own rows, with n[c] = 1

is what a replica of c adds to z at least; n of them add n times as much, as own rows are cones. A fleet with
c is no better than z + r[c]. All r are one linear program with duals y' of the own rows. What the two solves
say is not trusted: with d = cost - A'(y, y') weak duality proves z and r[c] = d[n[c]] whatever y and y' are.

Columns within some distance of z are solved for, less those of a group that is left without a partner: they
serve nothing. While what is found is worse than the best that the rest could do, twice the distance is
looked through, and at last all that could do better.

Source: reduced costs that fix variables: Dantzig, Fulkerson and Johnson, Operations Research 2, 1954.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from solvers.fleet.types import Built, FleetProblem, FleetSolution
from solvers.linear import INF, Limits, Status, glop, judge, met

OWN = ("busy", "run", "load", "cost", "wait")
"""Families of rows whose keys begin with their column."""

MANY = 500
"""Columns from which on two relaxations are soon made up for."""

SPREAD = 25_000
"""Columns times nodes from which on they are, too: the more nodes, the less do whole replicas lose, and the
fewer columns are as near to the relaxation."""

NEAR = 0.02
"""Columns that lose no more than this part of z are solved for first."""

WIDER = 2.0
"""Times that distance, next: a fleet found there spares most of the columns that are further off."""

SHARE = 0.5
"""Part of the time left that a part of the columns gets."""

LEAST_S = 0.01
"""Seconds of a relaxation that begins when the time is over."""

ALIKE = 1e-4
"""Relative distance of the relaxation's value from what its duals prove, beyond which they are of no use."""

Solve = Callable[[FleetProblem, Limits], FleetSolution]


@dataclass(frozen=True)
class Prices:
    """`best`, the relaxation's bound on what is minimised, and what a replica of each column adds to it at
    least."""

    best: float
    more: Mapping[str, float]

    def within(self, distance: float) -> list[str]:
        """Columns that a fleet at most so much worse than `best` may have."""
        return [c for c, r in self.more.items() if r <= distance]


def prices(built: Built, limits: Limits) -> Prices | None:
    """Price every column of a fleet's model; None where the relaxation has no answer. Raises
    KeyboardInterrupt."""
    until = time.monotonic() + limits.seconds
    a, m = glop.Arrays.of(built.model), built.model
    whole = glop.relaxed(a, limits.seconds)
    if not whole.has_solution():
        return None
    duals = np.array(whole.dual_values())
    own = np.array([family in OWN for family, _ in m.rows])
    at_one = {v.column for v in built.n.values()}
    free = {v.column for v in (*built.f.values(), *built.e.values(), *built.z.values())}
    _, reduced = a.reduced(np.where(own, 0.0, duals))
    lower, upper = np.zeros_like(a.lower), np.zeros_like(a.upper)
    lower[list(at_one)] = upper[list(at_one)] = 1.0
    upper[list(free)] = INF
    rows = np.flatnonzero(own)
    cost, limits_of = np.where(upper > 0, reduced, 0.0), (a.row_lower[rows], a.row_upper[rows])
    each = glop.Arrays(cost, lower, upper, a.integer, a.matrix[rows], *limits_of)
    apart = glop.relaxed(each, max(until - time.monotonic(), LEAST_S))
    if not apart.has_solution():
        return None
    duals[rows] = np.array(apart.dual_values())
    best, reduced = a.reduced(duals)
    value = float(a.cost @ np.array(whole.variable_values()))
    if best is None or abs(value - best) > ALIKE * abs(value):  # out of time
        return None
    return Prices(best, {c: float(reduced[v.column]) for c, v in built.n.items()})


def by_kinds(p: FleetProblem, known: Prices) -> Prices:
    """What a replica of any column of the same kind adds at least: kinds are left out whole."""
    least: dict[str, float] = {}
    for c, r in known.more.items():
        least[p.kind(c)] = min(least.get(p.kind(c), INF), r)
    return replace(known, more={c: least[p.kind(c)] for c in known.more})


def worth(p: FleetProblem) -> bool:
    """Whether columns are to be left out before integers are searched for."""
    many, nodes = len(p.columns), sum(stock.nodes for stock in p.stocks.values())
    return many >= MANY or many * nodes >= SPREAD


def few(p: FleetProblem, columns: Collection[str]) -> FleetProblem:
    """The problem with some of its columns, and the pairs that these still make: groups without one go."""
    there = {p.columns[c].group for c in columns}
    pairs = {key: t for key, t in p.pairs.items() if key[0] in there and key[1] in there}
    paired = {None, *(end for key in pairs for end in key[:2])}
    kept = {c: p.columns[c] for c in columns if p.columns[c].group in paired}
    return replace(p, columns=kept, pairs=pairs)


def searched(p: FleetProblem, known: Prices, limits: Limits, solve: Solve) -> FleetSolution:
    """The best fleet by `solve` among few columns, under a bound that holds for all of them."""
    until, sign = time.monotonic() + limits.seconds, p.objective.sign
    distance, best, bound, value = NEAR * abs(known.best), None, known.best, None
    while True:
        others = min((r for r in known.more.values() if r > distance), default=INF)
        left = (1.0 if others == INF else SHARE) * (until - time.monotonic())
        near = few(p, known.within(distance))
        s = replace(solve(near, replace(limits, seconds=max(left, 0.01))), among=tuple(near.columns))
        nothing = INF if s.status == "infeasible" else known.best
        own = nothing if s.bound is None else sign * s.bound
        bound = max(bound, min(own, known.best + others))
        if best is None or (s.objective is not None and (value is None or sign * s.objective < value)):
            best, value = s, None if s.objective is None else sign * s.objective
        long = limits if s.status == "time_limit" else replace(limits, enough=None)
        proven = met(value, bound, long)
        stuck = s.status == "time_limit" and own <= known.best + others  # more columns prove nothing then
        if proven or stuck or others == INF or s.status == "interrupted" or time.monotonic() > until:
            break
        enough = INF if value is None else value - known.best
        distance = max(min(enough, WIDER * distance), others)
    assert best is not None
    if bound == INF:
        return s
    stopped: Status = "interrupted" if s.status == "interrupted" else "time_limit"
    bound = bound if value is None else min(bound, value)
    least = {c: sign * (known.best + r) for c, r in known.more.items()}
    status = judge(value, bound, limits, stopped)
    return replace(best, bound=sign * bound, status=status, least=least)
