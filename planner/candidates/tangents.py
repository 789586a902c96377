"""What a column costs at any load, from below: lines that the fleet's program may add up.

Watts and latency depend on how busy a server is, and that is the program's to choose. Each column is asked
at many loads u, the share of its own. What it costs between two of them need not be convex: a larger batch
may have better kernels, a percentile sets in, a pipeline's micro-batches are first all in use. So samples are
lowered to what is sure (`hull.py`), and the column's lines are edges of the lower convex hull of these:

    watts       W(u)        >= a_k + slope_k R u                                   R [1/s] at u = 1
    latency     Σ f_w L_w(u) >= Σ f_w [c_k L_w(u_k) - a_k use_w / u_k] + a_k       u_k a load under the edge
                (a pair's transfer is the pair's, in `problems/fleet.py`)

with u = Σ use_w f_w a replica; c_k <= 1 is what the edge is at u_k of what the column takes there. So they
are under the workload's own mix of the buckets that a column serves. Lines of watts are lowered further, as a
replica may serve other mixes: b_w is the line's from a_k to what `w` alone costs at the same u, where that is
less, and a_k is such that no line lies above that, nor above what it costs where most requests are of `w`.
What requests wait for one another has no lines that hold for all mixes and say anything: their proof is of
the own mix, and `proof.space` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.columns import alone, as_the_others
from planner.candidates.hull import edges, sure_of
from planner.candidates.loaded import Loaded
from planner.candidates.points import Points, at_rate, draw
from planner.candidates.setup import Setup
from planner.designs.shape import Floats, Ints

EMPTY = 1e-5
"""Share of a column's load at which requests never meet."""

SHARES = {
    "watts": np.concatenate([np.geomspace(EMPTY, 1e-3, 9), np.geomspace(1e-3, 1.0, 41)[1:]]),
    "latency": np.concatenate([[EMPTY], np.geomspace(1e-4, 1.0, 180)]),
}
"""Shares of a column's load at which it is asked first."""

MORE = {"watts": (24,), "latency": (48, 48)}
"""Further shares, between samples where too little is sure for the lines to begin with: each time so
many."""

LINES = {"watts": 4, "latency": 12}
"""Lines of a column to begin with, chosen so that they are nowhere far below the hull. Watts are nearly
straight, and the search adds lines where they matter; fleets hide in columns whose latency has no line near
where they stand."""

LIGHTER = np.array([EMPTY, 0.35, 1.0])
"""Shares of a column's load at which columns are compared before any is dropped: up to the whole of it."""

NEARBY, NEAR = 0.03, 24
"""Share of a load to each side of it, and loads there, at which it is asked besides for the line that is
highest at it."""

MOSTLY = (0.999, 0.99, 0.9)
"""Shares of requests of one bucket, the rest by the workload's mix, under which lines are looked at, too."""

What = Literal["watts", "latency", "waits"]

Line = tuple[float, dict[str, float]]
"""(a, b by bucket), as `Column.tangents` in `solvers/fleet/types.py`."""


@dataclass(frozen=True)
class Tangents:
    """`a` (m, k) and `b` (m, k, w): n replicas with f_w requests/s cost a n + Σ b_w f_w at least."""

    a: Floats
    b: Floats

    def named(self, i: int, buckets: list[int]) -> tuple[Line, ...]:
        """Lines of column `i`, by bucket, each once."""
        each = np.unique(np.column_stack([self.a[i], self.b[i][:, buckets]]), axis=0)
        return tuple(
            (float(a), {str(w): float(x) for w, x in zip(buckets, b, strict=True)}) for a, *b in each
        )


def lighter(columns: Loaded, what: What) -> Floats:
    """What columns cost at LIGHTER shares of their load: watts (m, k, 1), or seconds of each bucket,
    (m, k, w); where waits are limited until the first token and for a further one, (m, 2k, w)."""
    if what == "waits":
        both = columns.asked(LIGHTER, seconds_of)
        return both.reshape(len(both), -1, both.shape[-1])
    return columns.asked(LIGHTER, _watts if what == "watts" else _seconds)


def tangents(columns: Loaded, what: What) -> Tangents:
    """The lines that every column begins with."""
    many = LINES[what]
    a, b = np.zeros((len(columns.index), many)), np.zeros((len(columns.index), many, columns.use.shape[1]))
    for rows, part in columns.parts:
        hull = Hull.of(part, what, SHARES[what])
        lines = _lines(part, what, hull, hull.fewest(many))
        a[rows], b[rows] = lines.a, lines.b
    return Tangents(a, b)


def touching(c: Candidate, s: Setup, index: int, rate: float, what: What) -> Line:
    """The line of one candidate that is highest where a replica serves `rate` requests/s of the mix."""
    column = Loaded.of(c, s, index)
    here = at_rate(s, column.index, rate / column.ranks, column.role)
    own = (here.load if column.role == "prefill" else here.sequences) / column.load
    share = min(float(own[0]), 1.0)
    near = np.minimum(share * np.linspace(1 - NEARBY, 1 + NEARBY, 2 * NEAR + 1), 1.0)
    shares = np.sort(np.concatenate([SHARES[what], near]))
    hull = Hull.of(column, what, shares)
    chosen = np.abs(hull.rate - rate).argmin(axis=1)
    lines = _lines(column, what, hull, chosen[:, None])
    return lines.named(0, np.flatnonzero(column.use[0] > 0).tolist())[0]


@dataclass(frozen=True)
class Hull:
    """The lower convex hull of what is sure, at samples (m, k) that ascend: `share` of the columns' load,
    `rate` requests/s, `cost` there and what is `sure` of it; the hull's edge at each is `a + slope rate`."""

    share: Floats
    rate: Floats
    cost: Floats
    sure: Floats
    a: Floats
    slope: Floats

    @staticmethod
    def of(columns: Loaded, what: What, shares: Floats) -> Hull:
        """Asked at `shares` (k,), then at MORE where the lines to begin with are held down."""
        bends = np.clip(columns.bends, shares[0], shares[-1])
        share = np.concatenate([np.broadcast_to(shares, (len(bends), len(shares))), bends], axis=1)
        share = np.sort(share, axis=1)
        known = [share, *sampled(columns, what, share)]
        hull = Hull._under(what, *known)
        for many in MORE[what]:
            more = hull._between(many, LINES[what])
            both = zip(known, (more, *sampled(columns, what, more)), strict=True)
            known = [np.concatenate(x, axis=1) for x in both]
            order = known[0].argsort(axis=1)
            known = [np.take_along_axis(x, order, axis=1) for x in known]
            hull = Hull._under(what, *known)
        return hull

    @staticmethod
    def _under(what: What, share: Floats, rate: Floats, level: Floats) -> Hull:
        x, level = np.pad(rate, ((0, 0), (1, 0))), np.pad(_ended(level), ((0, 0), (1, 0)), mode="edge")
        per = x if what == "latency" else np.ones_like(x)
        sure = sure_of(x, level * per, per)
        a, slope = edges(x, sure)
        return Hull(share, rate, (level * per)[:, 1:], sure[:, 1:], a[:, 1:], slope[:, 1:])

    def _between(self, many: int, lines: int) -> Floats:
        """`many` shares more, (m, many): between samples by as much as the lower one holds `lines` down."""
        chosen = self.fewest(lines)
        told = np.max([self._edge(j) for j in chosen.T], axis=0)
        gap, lost = (np.log(np.maximum(self.sure, 1e-30) / np.maximum(y, 1e-30)) for y in (told, self.cost))
        held = np.maximum(-lost - gap, 0.0)
        steps = np.maximum(held[:, 1:], held[:, :-1])
        sums = np.pad(np.cumsum(np.maximum(steps, 1e-9), axis=1), ((0, 0), (1, 0)))
        wanted = sums[:, -1:] * (np.arange(many) + 0.5) / many
        return np.stack([np.interp(*row) for row in zip(wanted, sums, self.share, strict=True)])

    def _edge(self, j: Ints) -> Floats:
        """The edge at sample `j` (m,) of each column, at all samples."""
        one = np.arange(len(j))
        return np.asarray(self.a[one, j, None] + self.slope[one, j, None] * self.rate)

    def fewest(self, many: int) -> Ints:
        """Samples (m, many) whose edges together lie nearest to the hull: one after the other where those
        before lie furthest below it."""
        hull = self.a + self.slope * self.rate
        below, chosen = np.zeros_like(hull), np.zeros((len(hull), many), dtype=np.int64)
        for k in range(many):
            chosen[:, k] = ((hull - below) / np.maximum(hull, 1e-30)).argmax(axis=1)
            below = np.maximum(below, self._edge(chosen[:, k]))
        return chosen


def sampled(columns: Loaded, what: What, shares: Floats) -> tuple[Floats, Floats]:
    """Requests/s (m, k) and watts, or seconds of the mean request."""

    def tell(own: Loaded, p: Points) -> Floats:
        if what == "watts":
            return np.column_stack([p.rate * own.ranks, _watts(own, p)])
        return np.column_stack([p.rate * own.ranks, _mean(own, _seconds(own, p))])

    rate, level = np.moveaxis(columns.asked(shares, tell), 2, 0)
    return rate, level


def _lines(columns: Loaded, what: What, hull: Hull, chosen: Ints) -> Tangents:
    """The edges at the samples `chosen` (m, j), by bucket."""
    share, rate, _, _, a, slope = (np.take_along_axis(x, chosen, axis=1) for x in vars(hull).values())
    if what == "watts":
        by_bucket = slope[:, :, None] * (columns.use * columns.full[:, None])[:, None, :]
        return _of_each(Tangents(a, by_bucket), columns, rate / columns.full[:, None])
    each = np.where(columns.share[:, None] > 0, columns.asked(share, _seconds), 0.0)
    each = np.where(np.isfinite(each).all(axis=2, keepdims=True), each, 1.0)
    each *= ((a / rate + slope) / (each * columns.share[:, None]).sum(axis=2))[:, :, None]
    return Tangents(a, each - (a / rate * columns.full[:, None])[:, :, None] * columns.use[:, None, :])


def _of_each(lines: Tangents, columns: Loaded, level: Floats) -> Tangents:
    """Lines of watts that touch at `level` (m, k) of the columns' load, lowered below what each bucket costs
    alone and where most requests are of it."""
    a, b, looked = lines.a.copy(), lines.b.copy(), alone(columns.setup)
    own, every = columns.setup.mix.share, np.arange(len(columns.index))
    for w, part in product(looked, (1.0, *MOSTLY)):
        share = part * (np.arange(len(own)) == w) + (1 - part) * own
        x, y = sampled(columns.under(every, share), "watts", SHARES["watts"])
        ends = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)  # else it never serves that
        rows, x, y = every[ends], x[ends], sure_of(x[ends], y[ends], np.ones_like(y[ends]))
        if part == 1.0 and len(rows):
            rate = level[rows] / columns.use[rows, w, None]
            there = np.stack([np.interp(*row) for row in zip(rate, x, y, strict=True)])
            b[rows, :, w] = np.clip((there - a[rows]) / np.maximum(rate, 1e-30), 0.0, b[rows, :, w])
        told = a[rows][:, :, None] + (b[rows] @ share)[:, :, None] * x[:, None, :]
        a[rows] -= np.maximum((told - y[:, None, :]).max(axis=2), 0.0)
    as_the_others(b, lines.b, looked)
    return Tangents(a, b)


def _watts(columns: Loaded, p: Points) -> Floats:
    """Watts of a replica at each of the points, (m, 1)."""
    return draw(columns.setup, p, columns.role)[:, None]


def _seconds(columns: Loaded, p: Points) -> Floats:
    """What a request of each bucket waits at the column, (m, w): to its first token, and for its tokens."""
    osl = columns.setup.mix.osl
    if columns.role == "prefill":
        return p.ttft_s
    first = p.tpot_s * columns.setup.mix.emitted if columns.role == "decode" else p.ttft_s
    return np.asarray(first + (osl - 1) * np.where(osl > 1, p.tpot_s, 0.0))


def seconds_of(columns: Loaded, p: Points) -> Floats:
    """What a request of each bucket waits for its first token and for a further one, cautious, (m, 2, w); one
    token has none further. A decode server's step of a pair's first token counts with the sender's caution,
    which is at least 1 where there is any."""
    s, role = columns.setup, columns.role
    other, none = s.caution(role)[1, p.index, None], np.zeros_like(p.tpot_s)
    step = min(1.0, float(np.exp(s.risk_z))) * s.mix.emitted * p.tpot_s
    until = step if role == "decode" else p.cautious_ttft_s
    further = none if role == "prefill" else np.where(s.mix.osl > 1, other * p.tpot_s, 0.0)
    return np.stack([until, further], axis=1)


def _mean(columns: Loaded, seconds: Floats) -> Floats:
    """Of the mean request (m,): buckets that are not served may take for ever."""
    return np.asarray((np.where(columns.share > 0, seconds, 0.0) * columns.share).sum(axis=1))


def _ended(level: Floats) -> Floats:
    """Levels (m, k) with those without end as high as the highest that has one: lines below these are below
    the others, too."""
    ends = np.isfinite(level)
    highest = np.where(ends, level, 0.0).max(axis=1, keepdims=True)
    return np.where(ends, level, highest)
