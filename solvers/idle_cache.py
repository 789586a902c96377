"""Keeping: which blocks of idle KV cache to keep, how long and in which tier, to save the most GPU time.

A block rests from its last use on, until it is used again or for ever. Kept until then it saves the seconds
of computing it anew, less those of loading it. It may be handed down to slower tiers as it ages, never up.

Sets       k in K  kinds of blocks     t in T  tiers, fast to slow     i in I  classes of age, young to old
Data       born[k]     bytes that come to rest a second                                        [GB/s]
           waits[k,i]  seconds that a block waits in class i, mean over all that rest          [s]
           start[k,i]  share that still waits when class i begins
           back[k,i]   share that is used again in class i
           save[k]     seconds of computing anew      load[t] of loading, which computing waits for  [s/GB]
           room[t] [GB]      read[t], write[t]  rate of the tier, infinite where there is none [GB/s]
           above[k]    the kind that a block of k builds on, or none
Choose     y[k,t,i] real in [0, 1]  share of what waits in class i that is kept in t
           w[k,t,i] real >= 0       share that comes down to t or a slower tier as class i begins
maximise   sum(k,t,i) born[k] * back[k,i] * (save[k] - load[t]) * y[k,t,i]     [s of GPU time a second]
room[t]    sum(k,i) born[k] * waits[k,i] * y[k,t,i]   <= room[t]         (Little's law)
read[t]    sum(k,i) born[k] * back[k,i] * y[k,t,i]    <= read[t]
write[t]   sum(k,i) born[k] * start[k,i] * w[k,t,i]   <= write[t]        t not the first tier
age[k,t,i] sum(s <= t) y[k,s,i] <= sum(s <= t) y[k,s,i-1]  (1 before the first class): only down, and out
down[k,t,i]  sum(s >= t) y[k,s,i] - sum(s >= t) y[k,s,i-1] <= w[k,t,i]
under[k,t,i] sum(s <= t) y[k,s,i] <= sum(s <= t) y[above[k],s,i]: a block is found with what it builds on

Duals of room: seconds a second that one GB more saves, between the left and the right derivative.
Assumes    blocks of a kind are alike; a policy may keep a share of them. The classes of age are all a policy
           can tell, so this bounds every time to live by kind from above, not an eviction that knows more.
Source     times to live as a linear program: Ferragut, Rodriguez and Paganini, "Optimizing TTL caches under
           heavy-tailed demands", SIGMETRICS 2016; tiers, links and `under` are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from solvers.linear import Expr, Floats, Limits, Linear, Status, Term, Var, total

Y = dict[tuple[int, int, int], Var]


@dataclass(frozen=True, eq=False)
class KeepingProblem:
    """Arrays: born, save (kinds,); waits, start, back (kinds, ages); above (kinds,) -1: none; of tiers load,
    room, read, write (tiers,)."""

    born: Floats
    save: Floats
    waits: Floats
    start: Floats
    back: Floats
    above: tuple[int, ...]
    load: Floats
    room: Floats
    read: Floats
    write: Floats


@dataclass(frozen=True, eq=False)
class KeepingSolution:
    """`saved` [s/s] by `kept` (kinds, tiers, ages), no more than `bound`; `price` (tiers,) of one GB more, in
    s/s."""

    status: Status
    saved: float
    bound: float
    kept: Floats
    price: Floats


def solve(p: KeepingProblem, limits: Limits) -> KeepingSolution:
    """The best times to live."""
    if not p.born.size or not p.room.size:
        shape = (len(p.born), len(p.room), p.waits.shape[1])
        return KeepingSolution("optimal", 0.0, 0.0, np.zeros(shape), np.zeros(len(p.room)))
    m, y = build(p)
    outcome = m.relax(limits)
    kept = np.zeros((len(p.born), len(p.room), p.waits.shape[1]))
    if outcome.values is None:
        return KeepingSolution(outcome.status, 0.0, float("inf"), kept, np.zeros(len(p.room)))
    for at, value in outcome.of(y).items():
        kept[at] = min(max(value, 0.0), 1.0)
    price = np.array([max(-outcome.duals["room", t], 0.0) for t in range(len(p.room))])
    value = saved(p, kept)
    bound = float("inf") if outcome.bound is None else max(-outcome.bound, value)
    return KeepingSolution(outcome.status, value, bound, kept, price)


def saved(p: KeepingProblem, kept: Floats) -> float:
    """The objective of any `kept`."""
    gain = p.save[:, None] - p.load[None, :]
    return float(((p.born[:, None] * p.back)[:, None, :] * gain[:, :, None] * kept).sum())


def worth(p: KeepingProblem, s: KeepingSolution, tier: int, more_gb: float, limits: Limits) -> float:
    """Seconds a second that `more_gb` more in a tier save, solved again."""
    room = p.room.copy()
    room[tier] += more_gb
    return max(solve(replace(p, room=room), limits).saved - s.saved, 0.0)


def build(p: KeepingProblem) -> tuple[Linear, Y]:
    """Write the model: one statement for each line of the docstring."""
    m = Linear("keeping")
    kinds, tiers, ages = len(p.born), len(p.room), p.waits.shape[1]
    keys = [(k, t, i) for k in range(kinds) for t in range(tiers) for i in range(ages)]
    y = m.reals("y", keys, 1.0)
    w = m.reals("w", [key for key in keys if key[1] > 0])
    gain = p.save[:, None] - p.load[None, :]
    m.minimise([y[k, t, i] * -(p.born[k] * p.back[k, i] * gain[k, t]) for k, t, i in keys])
    for t in range(tiers):
        own = [(k, i) for k in range(kinds) for i in range(ages)]
        m.add("room", t, total(y[k, t, i] * (p.born[k] * p.waits[k, i]) for k, i in own) <= p.room[t])
        if np.isfinite(p.read[t]):
            m.add("read", t, total(y[k, t, i] * (p.born[k] * p.back[k, i]) for k, i in own) <= p.read[t])
        if t and np.isfinite(p.write[t]):
            m.add("write", t, total(w[k, t, i] * (p.born[k] * p.start[k, i]) for k, i in own) <= p.write[t])
    for k, t, i in keys:
        upto, onwards = range(t + 1), range(t, tiers)
        if i:
            m.add("age", (k, t, i), Expr([*_sum(y, k, upto, i), *_sum(y, k, upto, i - 1, -1.0)]) <= 0.0)
        else:
            m.add("age", (k, t, i), Expr([*_sum(y, k, upto, i)]) <= 1.0)
        if t and np.isfinite(p.write[t]):
            before = _sum(y, k, onwards, i - 1, -1.0) if i else ()
            m.add("down", (k, t, i), Expr([*_sum(y, k, onwards, i), *before, w[k, t, i] * -1.0]) <= 0.0)
        if p.above[k] >= 0:
            over = _sum(y, p.above[k], upto, i, -1.0)
            m.add("under", (k, t, i), Expr([*_sum(y, k, upto, i), *over]) <= 0.0)
    return m, y


def _sum(y: Y, k: int, tiers: range, i: int, sign: float = 1.0) -> Iterator[Term]:
    return (y[k, t, i] * sign for t in tiers)
