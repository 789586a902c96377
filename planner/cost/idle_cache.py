"""KV cache that rests between requests: how long blocks lie, and what keeping them finds again.

Kinds of blocks k, classes of age i with ends a_i. A request of bucket w leaves tokens[k] of each of its
kinds; the share back[k, i] of them is used again at an age of class i, evenly over it, the rest never. So
after a time T the share S_k(T) = 1 - sum of back up to T still waits, and who keeps every block for T after
its last use, as least-recently-used eviction does, holds by Little's law

    rate_w * token_s[w](T),   token_s[w](T) = sum over k of w: tokens[k] * integral of S_k from 0 to T

and finds hits[w](T) of the prompt's tokens again. T follows from the room (Che, Tung and Wang 2002). What
many requests begin with (`fixed_tokens` in all) is used all the time: it stays, and is found always.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from planner.designs.shape import Floats, Ints
from planner.inputs.reuse import Idle, Reuse
from planner.inputs.workload import Bucket, Workload

QUANTILES = 20
"""Classes of age of a stated gap, each with as many returns, but for the last ones."""

TAIL = (0.975, 0.99, 0.999)
"""Quantiles at which the last classes end."""

JUST = 0.99
"""Share of a gap that is always the same length, at which its class of gaps begins."""

HALVES = 2
"""Parts by depth of a context that returns: late tokens are dearer."""

LONGEST_S = 1e7


@dataclass(frozen=True, eq=False)
class Resting:
    """Arrays: ages_s (ages,) ends of the classes; of kinds `bucket`, `tokens`, `depth` (kinds,), `back`
    (kinds, ages), `above` the kind that one builds on, -1: none; `hits` (buckets, ages) tokens found;
    `begun` (buckets,) tokens of the shared beginnings in a prompt that finds nothing else, on average."""

    names: tuple[str, ...]
    ages_s: Floats
    bucket: Ints
    tokens: Floats
    depth: Floats
    back: Floats
    above: Ints
    hits: Floats
    begun: Floats
    shared: Floats
    fixed_tokens: float = 0.0

    @property
    def widths_s(self) -> Floats:
        """Seconds that each class of age spans, (ages,)."""
        return np.diff(self.ages_s, prepend=0.0)

    @property
    def starts(self) -> Floats:
        """Share that still waits when a class begins, (kinds, ages)."""
        return np.asarray(1 - np.cumsum(self.back, axis=1) + self.back)

    @property
    def waits_s(self) -> Floats:
        """Seconds that a block of each kind waits in each class, on average over all, (kinds, ages)."""
        return np.asarray((self.starts - self.back / 2) * self.widths_s)

    def within(self, keep_s: float) -> Floats:
        """Share of each class that lies within a time to live, (ages,)."""
        return np.clip((keep_s - (self.ages_s - self.widths_s)) / self.widths_s, 0.0, 1.0)

    def hit_tokens(self, keep_s: float) -> Floats:
        """Tokens of a prompt of each bucket that are found, (buckets,)."""
        return np.asarray(self.begun + self.hits @ self.within(keep_s))

    def token_s(self, keep_s: float) -> Floats:
        """Token-seconds that a request of each bucket leaves, (buckets,)."""
        part = self.within(keep_s)
        waits = (self.starts - self.back * part / 2) * (part * self.widths_s)
        beyond = max(keep_s - self.ages_s[-1], 0.0) * (self.starts[:, -1] - self.back[:, -1])
        each = self.tokens * (waits.sum(axis=1) + beyond)
        return np.asarray(np.bincount(self.bucket, weights=each, minlength=len(self.hits)), dtype=float)

    def keep_s(self, room: float, rates: Floats) -> float:
        """The time to live at which what rests fills `room` tokens, at `rates` (buckets,) requests/s: Che's
        time. In bytes, where `rates` are times bytes a token."""
        low, high = 0.0, LONGEST_S
        if room <= 0 or float(rates @ self.token_s(high)) <= room:
            return 0.0 if room <= 0 else high
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if float(rates @ self.token_s(middle)) <= room else (low, middle)
        return low


def resting_of(workload: Workload) -> Resting | None:
    """What a workload says of reuse; None where it says nothing."""
    if workload.idle is not None:
        return _counted(workload.idle, workload.buckets)
    return _stated(workload.reuse, workload.buckets) if workload.reuse else None


def _counted(idle: Idle, buckets: Sequence[Bucket]) -> Resting:
    kinds = idle.kinds
    none = np.zeros(len(idle.hits))
    return Resting(
        tuple(f"prompts of {buckets[k.bucket].isl:,} tokens" for k in kinds),
        np.array(idle.ages_s),
        np.array([k.bucket for k in kinds], dtype=np.int64),
        np.array([k.tokens for k in kinds]),
        np.array([k.depth for k in kinds]),
        np.array([k.back for k in kinds]),
        np.array([-1 if k.above is None else k.above for k in kinds], dtype=np.int64),
        np.array(idle.hits),
        none,
        none,
    )


def _stated(reuse: Sequence[Reuse], buckets: Sequence[Bucket]) -> Resting:
    """Kinds by bucket, way and depth."""
    ways = [r for r in reuse if r.gap_s is not None]
    prefixes = [r for r in reuse if r.tokens is not None]
    shared = sum(r.share * (r.tokens or 0) for r in prefixes)
    ages = _ages(ways)
    rows: list[tuple[str, int, float, float, Floats, int]] = []
    hits, never = np.zeros((len(buckets), len(ages))), np.zeros(len(ages))
    for w, b in enumerate(buckets):
        rested = 1 - sum(r.share for r in ways)
        own = max(b.isl - shared, 0.0)
        for r in ways:
            back = r.again * np.diff(_returned(r, ages), prepend=0.0)
            found = max(r.part * b.isl - shared, 0.0)
            for half in range(HALVES):
                before = len(rows) - 1 if half else -1
                size, depth = found / HALVES, shared + (half + 0.5) * found / HALVES
                rows.append((r.name, w, r.share * size, depth, back, before))
            rows.append((f"{r.name}, the rest", w, r.share * (own + b.osl - found), b.isl, never, -1))
            hits[w] += r.share * found * back
        if rested > 1e-9:
            rows.append(("never met again", w, rested * (own + b.osl), b.isl / 2, never, -1))
    names, bucket, tokens, depths, backs, above = zip(*rows, strict=True)
    return Resting(
        tuple(names),
        ages,
        np.array(bucket, dtype=np.int64),
        np.array(tokens),
        np.array(depths, dtype=float),
        np.array(backs),
        np.array(above, dtype=np.int64),
        hits,
        np.full(len(buckets), shared),
        np.full(len(buckets), shared),
        sum(float(r.distinct * (r.tokens or 0)) for r in prefixes),
    )


def _ages(ways: Sequence[Reuse]) -> Floats:
    """Quantiles of all gaps."""
    chances = [*(i / QUANTILES for i in range(1, QUANTILES)), *TAIL]
    found = {round(_quantile(r, p), 9) for r in ways for p in chances}
    found |= {JUST * r.gap_s for r in ways if r.gap_s and r.gap_cv == 0}
    return np.array(sorted(found) or [1.0])


def _log(r: Reuse) -> tuple[float, float]:
    """Mean and deviation of the logarithm of the gap."""
    assert r.gap_s is not None
    variance = math.log1p(r.gap_cv**2)
    return math.log(r.gap_s) - variance / 2, math.sqrt(variance)


def _quantile(r: Reuse, chance: float) -> float:
    mean, deviation = _log(r)
    return math.exp(mean + deviation * NormalDist().inv_cdf(chance))


def _returned(r: Reuse, ages: Floats) -> Floats:
    """Share of what returns at all that has returned by each age."""
    mean, deviation = _log(r)
    if deviation == 0:
        return np.asarray(ages >= math.exp(mean) * (1 - 1e-6), dtype=float)
    return np.array([NormalDist(mean, deviation).cdf(math.log(a)) for a in ages])
