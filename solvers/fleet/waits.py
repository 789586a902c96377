"""Waits: what all requests of a bucket may wait for in the mean, whichever replicas serve them, as rows of
the fleet's model.

Sets       l in L      limits, each on what requests of one bucket w(l) wait for
           k in K[c,l] lines of what the requests at a column wait for together, convex in its load
Data       a[c,l,k], b[c,l,k,w]  of a replica, of a request/s    [requests that wait, by Little's law]
           most[l] [s]           took[P,D] [s] that the move of a pair takes, where l counts moves
Choose     z[c,l]  real >= 0   requests of w(l) that wait at c
wait[c,l,k] a[c,l,k] * n[c] + sum(w) b[c,l,k,w] * f[c,w]           <= z[c,l]
mean[l]     sum(c) z[c,l] + sum(P,D) took[P,D] * x[P,D,w(l)]       <= most[l] * share[w(l)] * rate

In the model 1 of z[c,l] is most[l] times the bucket's requests/s at the reference rate: the right side of
`mean` is then `rate`.

Assumes    lines never lie above what requests wait for: no fleet that keeps the means is cut off.
Source     ours; a sum of rates times waits is a number of requests by Little's law.
"""

from __future__ import annotations

from collections.abc import Mapping

from solvers.fleet.types import Built, FleetProblem
from solvers.linear import Expr, Linear, Var, total

FREE = 4.0
"""Times what may wait in the mean that never wait at one column: an upper limit, without which HiGHS 1.12
states false bounds, so loose that it takes no duals."""


def variables(p: FleetProblem, m: Linear, most: float) -> dict[tuple[str, str], Var]:
    """z, of the limits on buckets that there are; `most`: the largest rate, as the model counts it."""
    lines = {(c, name) for c, column in p.columns.items() for name in column.waits}
    there = [(c, name) for c in p.columns for name in p.waits if (c, name) in lines]
    return m.reals("z", there, FREE * most)


def add(p: FleetProblem, b: Built) -> None:
    """Rows wait and mean."""
    for name, limit in p.waits.items():
        one = limit.seconds * b.unit[limit.bucket]
        own: Mapping[str, Var] = {c: v for (c, of), v in b.z.items() if of == name}
        for c, v in own.items():
            for k, (a, slopes) in enumerate(p.columns[c].waits[name]):
                flows = [b.f[c, w] * (s * b.unit[w] / one) for w, s in slopes.items() if (c, w) in b.f]
                b.model.add("wait", (c, name, k), total([b.n[c] * (a / one), *flows]) <= v)
        moved = [
            b.x[key] * (pair.latency / limit.seconds)
            for key, pair in p.pairs.items()
            if limit.moves and key[2] == limit.bucket and pair.latency
        ]
        waiting = [*(v * 1.0 for v in own.values()), *moved, b.rate * -1.0]
        b.model.add("mean", name, Expr(waiting) <= 0)
