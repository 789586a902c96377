"""The largest load of every design at which each bucket keeps its promise: a batch that decodes, or the share
of its time that a prefill server is busy. Loads are continuous: each is found to the last digit that matters,
from below and from above.

A pass over arrays costs about the same for one point a design as for several, so first many loads are tried
at once, over the whole range; the section above the highest good one is then closed by regula falsi
(Illinois: Dowell and Jarratt 1971), a few points a design.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planner.candidates.known import once
from planner.candidates.mix import UNHURRIED_S
from planner.candidates.points import KEPT, Points, batched, beyond, decode_steps, over, prefilled
from planner.candidates.setup import Role, Setup, prefill_parts
from planner.designs.shape import Floats, Ints, StepTimes
from planner.queueing import work_s

MOST_SEQUENCES = 16_384
"""Largest batch of a server that is looked at: `proof.space` names it where it binds."""

TRIED = 14
"""Loads tried over the whole range, and again between two of them (a third as many)."""

OFTENER = 3
"""Times as many where a percentile is promised: of TPOT it may fall where load rises, so that loads which
keep it lie between others which don't."""

TO_THE_WALL = 6
"""Times that the section is halved in which a server comes to carry no more: a percentile may be kept just
below, and at no other load that is tried."""

CLOSING = 24
"""Rounds of regula falsi at most; where excess is smooth, five are enough."""

EXACT = 1e-8
"""Relative width at which a section counts as closed."""

ROUGH = 1e-3
"""And where nothing but room is limited: how long requests take is told of loads that are asked for later."""

MOSTLY = 0.5
"""Share of a lone request's time from which on it counts as always there."""

SELDOM = 0.03
"""The lightest load that is tried where requests come at random, as a share of that load."""

QUIETEST = 1e-3
"""Share of its time that a prefill server is busy where its TTFT is a lone prompt's."""

Excess = Callable[[Ints, Floats], Floats]
"""By how much the worst limit is exceeded, (m,), for rows (m,) at loads (m,)."""


Asked = Sequence[tuple[Role, float]]
"""Roles, each with its limit on TPOT in cautious seconds."""


@once
def largest(s: Setup, index: Ints, asked: Asked) -> tuple[Floats, Floats]:
    """The largest batch of a server of each design of `index` in each of the roles `asked` (mixed or decode)
    at which each bucket keeps the promise, from below and from above, (asked, designs, w) each; 0 where not
    even one request at a time does."""
    n, w = len(index), len(s.mix.share)
    roles = list(dict.fromkeys(role for role, _ in asked))
    one = one_at_a_time(s, index)
    many = TRIED * (1 if s.promise.percentile == "mean" else OFTENER)
    tries = _spread(one, np.full(n, float(MOST_SEQUENCES)), many)
    if s.promise.loop == "open":  # at random they may come one at a time, and seldom
        tries = np.hstack([SELDOM * one[:, None], tries])
    k = tries.shape[1]
    each = np.repeat(index, k)
    step = decode_steps(s, each, tries.ravel())
    curves = {role: batched(s, each, tries.ravel(), role, step) for role in roles}
    caution = s.caution("mixed")[1]

    def excess(points: Points, limit_s: float) -> Floats:
        slow = beyond(points.tpot_s * caution[points.index][:, None], s, limit_s)
        return np.maximum(np.maximum(points.late, points.other), slow)

    def at(rows: Ints, batch: Floats) -> Floats:
        server, bucket = np.divmod(rows, w)
        server, batch, same = _once(server, batch)
        which, design = np.divmod(server, n)
        out, step = np.empty((len(server), w)), decode_steps(s, index[design], batch)
        for i, (role, limit_s) in enumerate(asked):
            own = np.flatnonzero(which == i)
            if len(own):
                out[own] = excess(batched(s, index[design[own]], batch[own], role, _of(step, own)), limit_s)
        return out[same, bucket]

    known = [excess(curves[role], limit_s).reshape(n, k, w).transpose(0, 2, 1) for role, limit_s in asked]
    all_ = np.broadcast_to(tries[None, :, None, :], (len(asked), n, w, k))
    falls = s.promise.percentile != "mean"
    free = min(s.promise.ttft_s, *(limit_s for _, limit_s in asked)) >= UNHURRIED_S
    exact = ROUGH if free and s.promise.ttft_s < np.inf else EXACT
    low, high = closed(at, all_.reshape(-1, k), np.stack(known).reshape(-1, k), falls, exact)
    return low.reshape(len(asked), n, w), high.reshape(len(asked), n, w)


def most(s: Setup, index: Ints, role: Role) -> Floats:
    """The largest batch of each design of `index` (n,) at which some bucket keeps the promise; 0: at none."""
    return np.asarray(largest(s, index, [(role, s.promise.tpot_s)])[0][0].max(axis=1))


@once
def busiest(s: Setup, index: Ints, within_s: Floats) -> tuple[Floats, Floats]:
    """The largest share of its time that a prefill server of each design may be busy so that each bucket's
    first token is out `within_s` (k,) cautious seconds, from below and from above, (k, designs, w) each; 0
    where not even a lone prompt's is."""
    n, k, w = len(index), len(within_s), len(s.mix.share)
    parts = prefill_parts(s, index)
    levels = np.append(1 - np.geomspace(1 - QUIETEST, 1 - s.busiest, TRIED), s.busiest)
    levels[0] = QUIETEST
    every = np.repeat(np.arange(n), len(levels))
    points = prefilled(s, parts, every, np.tile(levels, n))
    ttft = points.cautious_ttft_s.reshape(n, len(levels), w)
    kept = points.other.reshape(n, len(levels), w)
    limits = np.minimum(within_s, s.promise.ttft_s)
    excess = np.maximum(over(ttft[None], limits[:, None, None, None]), kept[None])

    def at(rows: Ints, level: Floats) -> Floats:
        edge, server, bucket = np.unravel_index(rows, (k, n, w))
        design, level, same = _once(server, level)
        p = prefilled(s, parts, design, level)
        late = over(p.cautious_ttft_s[same, bucket], limits[edge])
        return np.asarray(np.maximum(late, p.other[same, bucket]))

    known = excess.transpose(0, 1, 3, 2).reshape(-1, len(levels))
    exact = ROUGH if min(within_s) >= UNHURRIED_S else EXACT
    low, high = closed(at, np.broadcast_to(levels, known.shape), known, exact=exact)
    return low.reshape(k, n, w), high.reshape(k, n, w)


def closed(
    at: Excess, tries: Floats, excess: Floats, falls: bool = False, exact: float = EXACT
) -> tuple[Floats, Floats]:
    """The largest load of each row with no excess, from below and from above, (rows,) each: 0 where all
    its `tries` (rows, k, ascending) have some, the last where that has none. `excess`: at the tries; `falls`:
    it may where load rises; `exact`: relative width at which a section is closed.

    The chord is drawn in logarithms: of the load, and of what is used of the limit, 1 + excess, which is
    nearly a power of the load.
    """
    rows, last = np.arange(len(tries)), tries.shape[1] - 1
    good = excess <= KEPT
    best = np.where(good.any(axis=1), last - good[:, ::-1].argmax(axis=1), -1)
    low, f_low = tries[rows, np.maximum(best, 0)].copy(), _used(excess[rows, np.maximum(best, 0)])
    above = np.minimum(best + 1, last)
    high, f_high = tries[rows, above].copy(), _used(excess[rows, above])
    if falls:
        near, ends = _below_the_wall(at, tries, excess, best)
        for end, values in zip((low, f_low, high, f_high), ends, strict=True):
            end[near] = values
        best[near] = np.maximum(best[near], 0)
    open_ = (best >= 0) & (best < last)
    wide = np.flatnonzero(open_ & ~(f_high < np.inf))  # a wall somewhere inside: nearer to it first
    if len(wide):
        own = _spread(low[wide], high[wide], TRIED // 3)[:, 1:-1]
        found = at(np.repeat(wide, own.shape[1]), own.ravel()).reshape(own.shape)
        _narrow(wide, own, found, (low, f_low, high, f_high))
    side = np.zeros(len(tries))
    for _ in range(CLOSING):
        live = np.flatnonzero(open_ & (high > low * (1 + exact)) & (f_low < -EXACT))
        if not len(live):
            break
        x = _between(low[live], f_low[live], high[live], f_high[live])
        f = at(live, x)
        kept, f = f <= KEPT, _used(f)
        up, down = live[kept], live[~kept]
        f_high[up] = np.where(
            side[up] > 0, f_high[up] / 2, f_high[up]
        )  # Illinois: the end that stays counts half
        f_low[down] = np.where(side[down] < 0, f_low[down] / 2, f_low[down])
        low[up], f_low[up], side[up] = x[kept], f[kept], 1.0
        high[down], f_high[down], side[down] = x[~kept], f[~kept], -1.0
    met = open_ & (f_low >= -EXACT)
    high = np.where(met | (high <= low * (1 + EXACT)), low, high)
    none = best < 0
    return np.where(none, 0.0, low), np.where(none, 0.0, high)


def _below_the_wall(at: Excess, tries: Floats, excess: Floats, best: Ints) -> tuple[Ints, Floats]:
    """Rows that keep their limits nearer to the load that is too much for them than any of their tries does,
    and the ends of the section where that stops, as `closed` has them. `best`: the highest good tries."""
    wall = np.argmax(np.isinf(excess), axis=1)
    rows = np.flatnonzero((wall > best + 1) & np.isinf(excess[np.arange(len(wall)), wall]))
    low, high = tries[rows, wall[rows] - 1].copy(), tries[rows, wall[rows]].copy()
    kept, f_kept, above = np.zeros(len(rows)), np.zeros(len(rows)), high.copy()
    for _ in range(TO_THE_WALL if len(rows) else 0):
        x = np.sqrt(low * high)
        f = at(rows, x)
        good, carried = f <= KEPT, np.isfinite(f)
        kept[good], f_kept[good] = x[good], f[good]
        above = np.where(good, high, np.where(x > kept, np.minimum(above, x), above))
        low, high = np.where(carried, x, low), np.where(carried, high, x)
    some = kept > 0
    return rows[some], np.stack([kept, _used(f_kept), above, np.full(len(rows), np.inf)])[:, some]


def _once(server: Ints, load: Floats) -> tuple[Ints, Floats, Ints]:
    """Servers at loads, (m,) each, once each; and where each of the given ones is among them: buckets that
    one limit binds are looked at under the same loads, and one look tells of all of them."""
    order = np.lexsort((load, server))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(server[order]) != 0) | (np.diff(load[order]) != 0)
    where = np.empty(len(order), dtype=np.int64)
    where[order] = np.cumsum(new) - 1
    first = order[new]
    return server[first], load[first], where


def _narrow(rows: Ints, tries: Floats, found: Floats, ends: tuple[Floats, Floats, Floats, Floats]) -> None:
    """The ends of `rows` moved to the highest good one of the tries inside, and to the next above it."""
    low, f_low, high, f_high = ends
    one, last = np.arange(len(rows)), tries.shape[1] - 1
    good = found <= KEPT
    best = np.where(good.any(axis=1), last - good[:, ::-1].argmax(axis=1), -1)
    some, more = best >= 0, best < last
    low[rows[some]] = tries[one[some], best[some]]
    f_low[rows[some]] = _used(found[one[some], best[some]])
    high[rows[more]] = tries[one[more], best[more] + 1]
    f_high[rows[more]] = _used(found[one[more], best[more] + 1])


def _used(excess: Floats) -> Floats:
    """Logarithm of what is used of a limit."""
    return np.log(np.maximum(1 + excess, 1e-4))


def _between(low: Floats, f_low: Floats, high: Floats, f_high: Floats) -> Floats:
    """Where the chord is zero; the middle where one end has no value."""
    a, b = np.log(low), np.log(high)
    known = np.isfinite(f_high) & (f_high > f_low)
    share = np.where(known, -f_low / np.where(known, f_high - f_low, 1.0), 0.5)
    return np.asarray(np.exp(a + np.clip(share, 1e-3, 1 - 1e-3) * (b - a)))


def _spread(low: Floats, high: Floats, count: int) -> Floats:
    """`count` loads between two, ends included, (m, count)."""
    return np.asarray(np.geomspace(low, high, count, axis=1))


def one_at_a_time(s: Setup, index: Ints) -> Floats:
    """Sequences (n,) that a server decodes on average where it has one request at a time: in a closed loop,
    which is never without, in K of K + c steps, c those of its prompt; else the share of its time that a
    request decodes, or one where that is most of it."""
    mix = s.mix
    if s.promise.loop == "closed":
        chunks = float(np.ceil(mix.new / s.token_budget) @ mix.share)
        return np.full(len(index), mix.steps / (mix.steps + chunks))
    step = decode_steps(s, index, np.ones(len(index)))
    prompt = work_s(step, mix.new, mix.isl, mix.osl, "prefill", s.token_budget) @ mix.share
    decode_s = mix.steps * step.t0_s + work_s(step, mix.new, mix.isl, mix.osl, "decode") @ mix.share
    share = decode_s / (decode_s + prompt)
    return np.where(share < MOSTLY, share, 1.0)


def _of(step: StepTimes, at: Ints) -> StepTimes:
    return StepTimes(*(np.asarray(x[at]) for x in vars(step).values()))
