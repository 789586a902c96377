"""What a column costs at any load, from below: lines that the fleet's program may add up.

Watts and latency depend on how busy a server is, and that is the program's to choose. Each column is asked
at some loads; through each goes the line that touches there, moved down where it would lie above another
one. The largest of the lines is then never more than the true cost, and equal to it where that bends
upwards:

    watts       W(u)        >= a_k + slope_k R u                                   R [1/s] at u = 1
    latency     Σ f_w L_w(u) >= Σ f_w [L_w(u_k) + R u_k L'_k use_w] - R u_k² L'_k     L' the mean slope
                (a pair's transfer is the pair's, in `problems/fleet.py`)

u the share of the column's load, u = Σ use_w f_w a replica. So they are under the workload's own mix of the
buckets that a column serves. Lines of watts are lowered further, as a replica may serve other mixes: b_w is
the line's from a_k to what `w` alone costs at the same u, where that is less, and a_k is such that no line
lies above that, nor above what it costs where most requests are of `w`. What requests wait for one another
has no lines that hold for all mixes and say anything: their proof is of the own mix, and `proof.space` says
so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.columns import alone, as_the_others
from planner.candidates.loaded import Loaded
from planner.candidates.points import Points, at_rate, draw
from planner.candidates.setup import Setup
from planner.designs.shape import Floats

SHARES = np.array([1e-5, 1e-3, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.97, 1.0])
"""Shares of a column's load at which it is asked; at the first requests never meet."""

DENSE = np.concatenate([SHARES[:1], np.geomspace(1e-4, 0.44, 80), np.linspace(0.46, 1.0, 19)])
"""Shares of the load for latency: the nearer they are, the less a line must be lowered to be sure."""

LINES = 12
"""How many of the lines through DENSE stay, so that they lie nowhere far below all of them."""

LIGHTER = np.array([1e-5, 0.35])
"""Shares of a column's load at which columns are compared before any is dropped, beside the whole of it."""

NEARBY = 0.02
"""Share of a load by which it is moved to each side to find its slope."""

SURE = 2e-4
"""Share by which lines are lowered besides: between samples a decade apart, at next to no load, one was found
0.9e-4 above the truth, and the batch of a rate is only found to `NEAR` (`planner/operating/steps.py`)."""

ROUGH = 1e-3
"""The same of latency: where the next larger batch has better kernels, a token takes less with more load, and
between samples lines were above the truth by 4e-3 with half as many of DENSE; with them, after this, by
1.3e-3 at most (two of 75 columns, at a five-hundredth of their load)."""

MOSTLY = (0.999, 0.99, 0.9)
"""Shares of requests of one bucket, the rest by the workload's mix, under which lines are looked at, too."""

What = Literal["watts", "latency"]

Line = tuple[float, dict[str, float]]
"""(a, b by bucket), as `Column.tangents` in `solvers/fleet/types.py`."""


FEW = [0, 4, 7, -1]
"""Indices into SHARES of the lines of watts that a column begins with; the search adds more where they
matter."""

SAME = 1e-9
"""Share of a column's rate within which two samples are one."""


@dataclass(frozen=True)
class Tangents:
    """`a` (m, k) and `b` (m, k, w): n replicas with f_w requests/s cost a n + Σ b_w f_w at least."""

    a: Floats
    b: Floats

    def named(self, i: int, buckets: list[int]) -> tuple[Line, ...]:
        """Lines of column `i`, by bucket."""
        return tuple(
            (float(a), {str(w): float(b[w]) for w in buckets})
            for a, b in zip(self.a[i], self.b[i], strict=True)
        )


def lighter(columns: Loaded, what: What) -> Floats:
    """What columns cost at LIGHTER shares of their load: watts (m, k, 1), or seconds of each bucket,
    (m, k, w)."""
    asked = columns.at(LIGHTER)
    if what == "latency":
        return np.stack([_seconds(columns, p) for p in asked], axis=1)
    return _watts_of(columns, asked)[:, :, None]


def tangents(columns: Loaded, what: What) -> Tangents:
    """The lines that every column begins with: of watts, which are nearly straight, a few; of latency more,
    as fleets hide in columns that have none near where they stand."""
    many = len(FEW) if what == "watts" else LINES
    a, b = np.zeros((len(columns.index), many)), np.zeros((len(columns.index), many, columns.use.shape[1]))
    for rows, part in columns.parts:
        lines = _fewest(_latency(part, DENSE), part) if what == "latency" else _watts(part, SHARES)
        chosen = FEW if what == "watts" else slice(None)
        a[rows], b[rows] = lines.a[:, chosen], lines.b[:, chosen]
    return Tangents(a, b)


def _fewest(all_: Tangents, columns: Loaded) -> Tangents:
    """`LINES` of the lines of each column: one after the other where those before lie furthest below them
    all, at the loads of DENSE."""
    full, rows = columns.full, np.arange(len(columns.index))
    slope = (all_.b * columns.share[:, None, :]).sum(axis=2)
    x = full[:, None] * DENSE
    at = all_.a[:, :, None] + slope[:, :, None] * x[:, None, :]  # (m, lines, loads)
    most = at.max(axis=1)
    chosen = np.zeros((len(rows), LINES), dtype=np.int64)
    below = np.zeros_like(most)
    for k in range(LINES):
        where = ((most - below) / np.maximum(most, 1e-30)).argmax(axis=1)
        chosen[:, k] = at[rows, :, where].argmax(axis=1)
        below = np.maximum(below, at[rows, chosen[:, k]])
    chosen.sort(axis=1)
    return Tangents(all_.a[rows[:, None], chosen], all_.b[rows[:, None], chosen])


def touching(c: Candidate, s: Setup, index: int, rate: float, what: What) -> Line:
    """The line of one candidate that touches where a replica serves `rate` requests/s of the mix."""
    column = Loaded.of(c, s, index)
    here = at_rate(s, column.index, rate / column.ranks, column.role)
    own = (here.load if column.role == "prefill" else here.sequences) / column.load
    share = min(float(own[0]), 1.0)
    near = share * np.array([1 - NEARBY, 1.0, 1 + NEARBY])
    asked, lines_of = (DENSE, _latency) if what == "latency" else (SHARES, _watts)
    shares = np.unique(np.concatenate([asked, near]))
    lines = lines_of(column, shares)
    served = np.flatnonzero(column.use[0] > 0).tolist()
    return lines.named(0, served)[int(np.flatnonzero(shares == near[1])[0])]


def _watts(columns: Loaded, shares: Floats) -> Tangents:
    """The last line is the chord from end to end: nothing lies between it and what bends downwards."""
    asked = columns.at(shares)
    watts, rate = _watts_of(columns, asked), columns.rates(asked)
    ends = [0, -1]
    slope = np.maximum(
        np.concatenate([_slopes(watts, rate), _chords(watts[:, ends], rate[:, ends])], axis=1), 0.0
    )
    through = [*range(len(asked)), 0]  # the chord through the first
    a = _below(watts[:, through] - slope * rate[:, through], slope, rate, watts)
    full = columns.full[:, None]
    lines = Tangents(a, slope[:, :, None] * (columns.use * full)[:, None, :])
    return _of_each(lines, columns, rate[:, [*range(len(asked)), -1]] / full, shares)


def _latency(columns: Loaded, shares: Floats) -> Tangents:
    """The first line is through 0: nobody waits less than alone."""
    asked, full, share = columns.at(shares), columns.full, columns.share
    each = np.stack([_seconds(columns, p) for p in asked], axis=1)  # (m, k, w)
    each = _ended(np.where(share[:, None, :] > 0, each, 0.0))  # without end where a bucket is not served
    mean = (each * share[:, None, :]).sum(axis=2)
    level = columns.rates(asked) / full[:, None]
    steeper = np.maximum(_slopes(mean, level), 0.0)  # seconds by level
    steeper[:, 0] = 0.0
    b = each + (full[:, None] * level * steeper)[:, :, None] * columns.use[:, None, :]
    rate = full[:, None] * level
    slope = (b * share[:, None, :]).sum(axis=2)
    a = _below(-full[:, None] * level**2 * steeper, slope, rate, rate * mean)
    return Tangents(a - ROUGH * rate * mean, b)


def _of_each(lines: Tangents, columns: Loaded, level: Floats, shares: Floats) -> Tangents:
    """Lines of watts that touch at `level` (m, k) of the columns' load, lowered below what each bucket costs
    alone and where most requests are of it."""
    a, b, looked = lines.a.copy(), lines.b.copy(), alone(columns.setup)
    own, every = columns.setup.mix.share, np.arange(len(columns.index))
    for w, part in product(looked, (1.0, *MOSTLY)):
        share = part * (np.arange(len(own)) == w) + (1 - part) * own
        other = columns.under(every, share)
        asked = other.at(shares)
        x, y = other.rates(asked), _watts_of(other, asked)
        ends = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)  # else it never serves that
        rows, x, y = every[ends], x[ends], y[ends]
        if part == 1.0 and len(rows):
            rate = level[rows] / columns.use[rows, w, None]
            there = np.stack([np.interp(*row) for row in zip(rate, x, y, strict=True)])
            b[rows, :, w] = np.clip((there - a[rows]) / np.maximum(rate, 1e-30), 0.0, b[rows, :, w])
        a[rows] = _below(a[rows], b[rows] @ share, x, y)
    as_the_others(b, lines.b, looked)
    return Tangents(a, b)


def _watts_of(columns: Loaded, asked: Sequence[Points]) -> Floats:
    """Watts of a replica, (m, k), from below."""
    return (1 - SURE) * np.stack([draw(columns.setup, p, columns.role) for p in asked], axis=1)


def _seconds(columns: Loaded, p: Points) -> Floats:
    """What a request of each bucket waits at the column, (m, w): to its first token, and for its tokens."""
    osl = columns.setup.mix.osl
    if columns.role == "prefill":
        return p.ttft_s
    first = p.tpot_s * columns.setup.mix.emitted if columns.role == "decode" else p.ttft_s
    return np.asarray(first + osl * np.where(osl > 1, p.tpot_s, 0.0))


def _ended(seconds: Floats) -> Floats:
    """Seconds (m, k, w) at rising loads with those that never end as long as the longest that do: lines below
    these are below the others, too."""
    ends = np.isfinite(seconds)
    longest = np.where(ends, seconds, 0.0).max(axis=1, keepdims=True)
    return np.where(ends, seconds, longest)


def _slopes(y: Floats, x: Floats) -> Floats:
    """dy/dx (m, k) at samples (m, k) that ascend in x: of the chord between both neighbours."""
    out, step, chords = np.empty_like(y), np.maximum(np.diff(x, axis=1), 1e-30), _chords(y, x)
    out[:, 0], out[:, -1] = chords[:, 0], chords[:, -1]
    before, after = step[:, :-1], step[:, 1:]
    out[:, 1:-1] = (chords[:, :-1] * after + chords[:, 1:] * before) / (before + after)
    return out


def _chords(y: Floats, x: Floats) -> Floats:
    """dy/dx (m, k - 1) between samples (m, k); 0 where x differs by no more than rounding: there a slope
    would be of noise, and beyond what a program can hold, while a level line lies below the curve, too."""
    step = np.diff(x, axis=1)
    apart = step > SAME * np.abs(x).max(axis=1, keepdims=True)
    return np.asarray(np.where(apart, np.diff(y, axis=1) / np.where(apart, step, 1.0), 0.0))


def _below(a: Floats, slope: Floats, x: Floats, y: Floats) -> Floats:
    """Intercepts `a` (m, k) of lines with `slope`, lowered so that none lies above a sample (x, y), nor above
    what the curve may fall to between two."""
    lines = a[:, :, None] + slope[:, :, None] * x[:, None, :]
    over = (lines - y[:, None, :]).max(axis=2)
    low_x, low_y = _dips(x, y)
    lines = a[:, :, None] + slope[:, :, None] * low_x[:, None, :]
    return np.asarray(a - np.maximum(over, np.maximum((lines - low_y[:, None, :]).max(axis=2), 0.0)))


def _dips(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The lowest points (m, k - 1) that a curve can have between samples (m, k) if it ascends and is convex
    there: where the chords before and after, made longer, meet; on the chord itself where it is concave; and
    where it is steeper than on both sides, as where a pipeline's micro-batches first are all in use, at the
    end of the chord before."""
    step, chord = np.maximum(np.diff(x, axis=1), 1e-30), _chords(y, x)
    before = np.concatenate([np.zeros_like(chord[:, :1]), chord[:, :-1]], axis=1)
    after = np.concatenate([chord[:, 1:], np.full_like(chord[:, :1], np.inf)], axis=1)
    bent, leap = (before < chord) & (chord < after), (before < chord) & (chord > after)
    steep = np.where(np.isfinite(after), after, 0.0) - before
    meet = np.where(np.isfinite(after), (after - chord) * step / np.where(bent, steep, 1.0), step)
    along = np.where(bent, np.clip(meet, 0.0, step), np.where(leap, step, 0.0))
    return x[:, :-1] + along, y[:, :-1] + np.where(bent | leap, before, 0.0) * along
