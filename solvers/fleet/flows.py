"""Flows: what replicas serve at one time, as rows of the fleet's model, whose docstring states them:
busy, run, load, serve, out, in, send, receive, hand, take, link.

They are written for all replicas of a fleet, and again for those that are left where nodes are lost
(`survive.py`): then n, f and x are those of the `rest`, which serves a `share` of the rate, and a row
`busy[c,j]` is named `rest busy[rest, (c,j)]`.
"""

from __future__ import annotations

from collections.abc import Hashable

from solvers.fleet.types import Built, FleetProblem
from solvers.linear import Expr, Term, total

FREE = 2.0
"""Flows have upper limits, for without them HiGHS 1.12 states false bounds; so much looser than what follows
from other rows that they take no duals (docs/decisions/0024-kinds.md)."""

MOST = 4.0
"""No fleet serves more than this times the reference rate for each bucket: twice where mixed replicas and
pairs, and twice where replicas that share nodes, each fill what the others leave."""

LIGHT = 1e-4
"""Replicas that a bucket's whole traffic fills, below which it would pass through one that is not there."""


def most(p: FleetProblem) -> float:
    """The largest f there can be."""
    return 1.0 if p.demand is not None and not p.objective.more else MOST * len(p.share)


def add(p: FleetProblem, b: Built, rest: str = "", share: float = 1.0) -> None:
    """All rows; `rest`: of which replicas they speak, all of them without."""
    _busy(p, b, rest)
    _serve(p, b, rest, share)
    _transfers(p, b, rest)


def _add(b: Built, rest: str, family: str, key: Hashable, row: Expr) -> None:
    """A row of all replicas, or of the rest."""
    b.model.add(*((f"rest {family}", (rest, key)) if rest else (family, key)), row)


def _busy(p: FleetProblem, b: Built, rest: str) -> None:
    """Rows busy, run, load; of what is left after a loss nothing is asked at least."""
    n, f, unit = b.n, b.f, b.unit
    for c, column in p.columns.items():
        for j, use in column.use.items():
            filled = total(f[c, w] * (u * unit[w]) for w, u in use.items() if w in unit)
            _add(b, rest, "busy", (c, j), filled <= n[c])
        for w in column.buckets:
            if w in unit and unit[w] * max(use.get(w, 0.0) for use in column.use.values()) < LIGHT:
                _add(b, rest, "run", (c, w), total([f[c, w]]) <= n[c] * most(p))
        if column.least and not rest:
            served = [f[c, w] * (unit[w] / column.least) for w in column.buckets if w in unit]
            b.model.add("load", c, total([n[c]]) <= total(served))


def _serve(p: FleetProblem, b: Built, rest: str, share: float) -> None:
    """Rows serve, out, in."""
    served: dict[str, list[Term]] = {w: [b.rate * -share] for w in p.share}
    for (c, w), v in b.f.items():
        if p.columns[c].group is None:
            served[w].append(v * 1.0)
    ends: dict[tuple[str, str], list[Term]] = {}
    for (prefill, decode, w), v in b.x.items():
        served[w].append(v * 1.0)
        ends.setdefault((prefill, w), []).append(v * -1.0)
        ends.setdefault((decode, w), []).append(v * -1.0)
    for w, terms in served.items():
        _add(b, rest, "serve", w, Expr(terms).equals(0))
    prefills = {key[0] for key in p.pairs}
    members = p.groups()
    for group in {**members, **dict.fromkeys(end for end, _ in ends)}:  # one without columns serves nothing
        for w in p.share:
            inside = [b.f[c, w] * 1.0 for c in members.get(group, []) if (c, w) in b.f]
            if inside or (group, w) in ends:
                row = Expr(inside + ends.get((group, w), [])).equals(0)
                _add(b, rest, "out" if group in prefills else "in", (group, w), row)


def _transfers(p: FleetProblem, b: Built, rest: str) -> None:
    """Rows send, receive, hand, take, link."""
    members = p.groups()
    moved: dict[tuple[str, str], list[Term]] = {}
    for (prefill, decode, w), v in b.x.items():
        pair = p.pairs[prefill, decode, w]
        carriers = [("send", prefill), ("receive", decode)] if pair.on_nic else []
        carriers += [("hand", prefill), ("take", decode)] if pair.inside else []
        for key in carriers + [("link", k) for k in pair.links]:
            moved.setdefault(key, []).append(v * (pair.bytes * b.unit[w]))
    for (c, w), f in b.f.items():
        for k, each in p.columns[c].sent.items():
            moved.setdefault(("link", k), []).append(f * (each[w] * b.unit[w]))
    for (family, end), terms in moved.items():
        if family == "link":
            row = total(Term(i, c / p.links[end]) for i, c in terms) <= 1.0
        else:
            room = [b.n[c] * -float(p.columns[c].gpus) for c in members.get(end, [])]
            port = p.inside if family in ("hand", "take") else p.nic
            row = Expr([Term(i, c / port[end]) for i, c in terms] + room) <= 0
        _add(b, rest, family, end, row)
