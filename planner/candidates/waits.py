"""What all requests at a column wait for together, from below: lines that the bound's program may add up
where the mean over all routes is limited, and not each of them.

By Little's law n replicas at r requests/s each, of which a share s_w is of bucket w, have n s_w r t_w(r)
requests waiting for what takes them t_w(r): a first token, or one further. That is convex in r wherever times
grow with load, and where it is not the lower hull stands for it (`hull.py`): so the mean over unlike loads of
one design is never below what they would wait at equal loads, and a line that touches

    s_w r t_w(r) >= a + slope r          n replicas with f_w requests/s:  >= a n + Σ b_w' f_w'

holds for all of them. As with latency (`tangents.py`) the lines are of the workload's own mix. Times are
cautious ones, and what a decode server adds to a pair's first token counts without caution, which is the
sender's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.hull import SAME, SURE, edges, sure_of
from planner.candidates.loaded import Loaded
from planner.candidates.points import Points
from planner.candidates.setup import Setup
from planner.candidates.tangents import EMPTY, Line, seconds_of
from planner.designs.shape import Floats, Ints

SHARES = np.concatenate(
    [
        [EMPTY],
        np.geomspace(1e-3, 0.03, 10),
        np.geomspace(0.04, 0.92, 24),
        1 - np.geomspace(0.06, 3e-4, 9),
        [1],
    ]
)
"""Shares of a column's load at which it is asked first: near all of it queues grow fast."""

ABOUT = np.linspace(0.9, 1.1, 17)
"""Further ones, times the load at which it reaches a limit, or at which replicas stand."""

TOUCHED = (0.3, 0.6, 0.85, 1.0, 1.2, 1.6, 2.4, 4.0, 8.0)
"""Times a limit at which lines touch to begin with."""

LIMITED = ("ttft", "tpot")
"""What is limited, as lines name it, in the order of seconds."""


def name_of(kind: int, bucket: int) -> str:
    """Of a limit: "ttft 0"."""
    return f"{LIMITED[kind]} {bucket}"


@dataclass(frozen=True)
class Sampled:
    """Columns (m,) at samples (m, k) that ascend: `rate` requests/s of a replica, `seconds` (m, k, 2, w)
    until the first token and for a further one, cautious."""

    columns: Loaded
    rate: Floats
    seconds: Floats

    @staticmethod
    def of(columns: Loaded, most_s: Sequence[float], rate: Floats | None = None) -> Sampled:
        """Nearer to each other about where a limit of `most_s` (2,) is reached, or about `rate` (m,)."""
        bends = np.clip(columns.bends, EMPTY, 1.0)
        first = np.concatenate([np.broadcast_to(SHARES, (len(bends), len(SHARES))), bends], axis=1)
        first = np.sort(first, axis=1)
        known = _asked(columns, first)
        level = known[1] / np.reshape(most_s, (2, 1))
        used = np.where(np.isfinite(level), level, 1e9).max(axis=(2, 3))
        x, at = (used, np.ones(len(first))) if rate is None else (known[0], rate)
        x = np.maximum.accumulate(x, axis=1)
        about = np.array([np.interp(*row) for row in zip(at, x, first, strict=True)])[:, None] * ABOUT
        more = np.clip(about, EMPTY, 1.0)
        both = [np.concatenate(two, axis=1) for two in zip(known, _asked(columns, more), strict=True)]
        order = both[0].argsort(axis=1, kind="stable")
        seconds = np.take_along_axis(both[1], order[:, :, None, None], axis=1)
        return Sampled(columns, np.take_along_axis(both[0], order, axis=1), seconds)

    def lines(self, kind: int, w: int, limit_s: float, at: Floats | None = None) -> list[tuple[Line, ...]]:
        """Lines of each column for bucket `w`, that touch at shares `TOUCHED` of the limit, or `at` rates
        (m,)."""
        own, level = self.columns, _ended(self.seconds[:, :, kind, w])
        share = own.share[:, w, None]
        x = np.pad(self.rate, ((0, 0), (1, 0)))
        y = x * share * np.pad(level, ((0, 0), (1, 0)), mode="edge")
        a, slope = (part[:, 1:] for part in edges(x, _sure(x, y)))
        if at is None:
            wanted = np.array(TOUCHED) * limit_s
            chosen = np.abs(level[:, :, None] - wanted).argmin(axis=1)
        else:
            chosen = np.abs(self.rate - at[:, None]).argmin(axis=1)[:, None]
        rate, a, slope = (np.take_along_axis(part, chosen, axis=1) for part in (self.rate, a, slope))
        each = np.where(share > 0, (a / rate + slope) / np.maximum(share, 1e-30), 0.0)
        b = -(a / rate * own.full[:, None])[:, :, None] * own.use[:, None, :]
        b[:, :, w] += each
        served = [np.flatnonzero(row > 0) for row in own.use]
        return [_named(*each_) for each_ in zip(a, b, served, strict=True)]


def _asked(columns: Loaded, shares: Floats) -> tuple[Floats, Floats]:
    """Requests/s of a replica (m, k) and cautious seconds (m, k, 2, w)."""
    told = columns.asked(shares, _rate_and_seconds)
    return told[:, :, 0], told[:, :, 1:].reshape(*shares.shape, 2, -1)


def _rate_and_seconds(columns: Loaded, p: Points) -> Floats:
    return np.column_stack([p.rate * columns.ranks, *seconds_of(columns, p).transpose(1, 0, 2)])


def _sure(x: Floats, y: Floats) -> Floats:
    """What is sure of `y` at samples (m, k): as in `sure_of`; and where chords about two samples rise one
    after the other the curve is taken to be convex between them, so that it lies above both neighbouring
    chords as they go on: each sample is lowered by as much as the chord is above these."""
    step = np.diff(x, axis=1)
    apart = step > SAME * x[:, -1:]
    chord = np.where(apart, np.diff(y, axis=1) / np.where(apart, step, 1.0), np.nan)
    before, here, after = chord[:, :-2], chord[:, 1:-1], chord[:, 2:]
    bent = (before <= here) & (here <= after)
    wide = np.where(after > before, after - before, 1.0)
    depth = np.full_like(chord, np.inf)
    depth[:, 1:-1] = np.where(bent, (here - before) * (after - here) / wide * step[:, 1:-1], np.inf)
    low = y.copy()
    low[:, :1], low[:, -1:] = -np.inf, -np.inf
    low[:, 1:-1] -= np.maximum(depth[:, :-1], depth[:, 1:])
    return np.maximum(np.where(np.isfinite(low), (1 - SURE) * low, -np.inf), sure_of(x, y, x))


def _ended(level: Floats) -> Floats:
    """Seconds (m, k) with those without end as long as the longest that has one: no line is above these."""
    ends = np.isfinite(level)
    return np.where(ends, level, np.where(ends, level, 0.0).max(axis=1, keepdims=True))


def _named(a: Floats, b: Floats, served: Ints) -> tuple[Line, ...]:
    """Lines by bucket, each once."""
    each = np.unique(np.column_stack([a, b[:, served]]), axis=0)
    return tuple((float(x), {str(w): float(y) for w, y in zip(served, row, strict=True)}) for x, *row in each)


def by_setup(candidates: Sequence[Candidate], setups: Sequence[Setup]) -> dict[object, list[int]]:
    """Candidates that can be asked together."""
    alike: dict[object, list[int]] = {}
    for i, (c, s) in enumerate(zip(candidates, setups, strict=True)):
        alike.setdefault((id(s), c.role), []).append(i)
    return alike


def lines_of(
    candidates: Sequence[Candidate],
    s: Setup,
    index: Ints,
    limits: Mapping[tuple[int, int], float],
    most_s: Sequence[float],
    rates: Floats | None = None,
) -> list[dict[str, tuple[Line, ...]]]:
    """Lines of candidates of one setup and role, designs `index` of it, for `limits` (kind, bucket) in
    seconds: those to begin with, or the one that touches at `rates` (m,) of a replica."""
    whole = Loaded.of_all(candidates, s, index)
    found: list[dict[str, tuple[Line, ...]]] = [{} for _ in candidates]
    for rows, part in whole.parts:
        at = None if rates is None else rates[rows]
        sampled = Sampled.of(part, most_s, at)
        for (kind, w), limit_s in limits.items():
            if part.role == "prefill" and kind == 1:
                continue
            own = sampled.lines(kind, w, limit_s, at)
            for row, lines in zip(rows, own, strict=True):
                if part.use[0, w] > 0:
                    found[row][name_of(kind, w)] = lines
    return found
