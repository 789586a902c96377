"""Wait for a place: a server holds c requests at most, in its batch or its KV cache, and others wait outside.

With n inside each stays

    S(n) = base + n work,    base = (K + 1) t0 + drain

as n share each step: K decode steps, one of the prompt. Births at λ and deaths at n / S(n), c / S(c) where
more than c are there (flow-equivalent server: Chandy, Herzog and Woo 1975): p_n / p_(n - 1) = λ S(n) / n up
to c, and u = λ S(c) / c beyond it. A request waits with the chance

    P(N >= c) = 1 / (1 + (1 - u) G(c)),    G(n) = (p_0 + ... + p_(n-1)) / p_n = a_n (1 + G(n - 1)),
                                           a_n = n / (λ S(n))

(with work = 0 Erlang's C), and then (1 + cv²)/2 · u / ((1 - u) λ) on average, cv of the decode steps: the
ratio of M/G/c to M/M/c of Lee and Longton (1959), as in Sakasegawa (1977). Beyond FEW places G is that of the
normal law, as those inside vary by n / (1 - ρ) (Halfin and Whitt 1981). A place that is not whole counts in
part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.cost.normal import density, tail
from planner.designs.shape import Floats
from planner.queueing.load import QUANTILE, TINY, Load, Parts, total

FEW = 32
"""Places up to which states are counted one by one."""

NEVER = 1e30
"""Of G: beyond it nobody waits."""

ROUNDING = 1e-6
"""Share of the room by which a cache may exceed it: what fits exactly fits."""

NEAREST = 1e-9
"""Part of the places that is free at least where their queue has an end."""


@dataclass(frozen=True)
class Waiting:
    """Chance that a request waits for a place, and mean seconds of those that do, (n, 1)."""

    chance: Floats
    given_s: Floats

    @property
    def mean_s(self) -> Floats:
        return np.asarray(self.chance * self.given_s)

    def at(self, percentile: str) -> Floats:
        """Mean or percentile of the wait, exponential where there is one, (n, 1)."""
        if percentile == "mean":
            return self.mean_s
        late = self.chance / (1 - QUANTILE[percentile])
        return np.asarray(self.given_s * np.log(np.maximum(late, 1.0)))


def wait_for(parts: Parts, load: Load, places: Floats) -> Waiting:
    """Of servers with `places` (n, 1); nobody waits where they are without end."""
    prompts = (total(parts.new) > 0) * 1.0
    drain_s = total(load.share * parts.drain_s)
    steps = total(load.share * parts.steps)
    base_s, work_s = (steps + prompts) * load.t0_s + drain_s, load.rho / load.arrivals
    known = np.isfinite(places)
    c = np.maximum(np.where(known, places, 1.0), 1e-3)
    u = np.clip(load.arrivals * (base_s / c + work_s), TINY, None)
    free = np.maximum(1 - u, NEAREST)
    g = _many(load, base_s, c)
    every = np.broadcast_arrays(load.arrivals, base_s, work_s, c, g)
    few = np.flatnonzero((every[3] <= FEW) & known)
    if len(few):
        g = every[4].copy()
        g[few] = _few(*(np.asarray(x[few]) for x in every[:4]))
    chance = np.where(u < 1, 1 / (1 + free * g), 1.0)
    square = total(load.share * parts.steps**2) / np.maximum(steps, TINY) ** 2
    given_s = u / (free * load.arrivals) * np.where(steps > 0, square, 1.0) / 2
    return Waiting(np.where(known, chance, 0.0), np.where(known, given_s, 0.0))


def _few(rate: Floats, base_s: Floats, work_s: Floats, c: Floats) -> Floats:
    """G(c) of at most FEW places, from the part of one upwards."""
    whole, g = np.floor(c), np.zeros_like(c * rate)
    for k in range(int(whole.max()), -1, -1):  # the last k places
        n = np.maximum(c - k, 0.0)
        a = n / np.maximum(rate * (base_s + n * work_s), TINY)
        g = np.where(k <= whole, np.minimum(a * (1 + g), NEVER), 0.0)
    return g


def _many(load: Load, base_s: Floats, c: Floats) -> Floats:
    """G(c) by the normal law."""
    inside = load.arrivals * base_s / (1 - load.rho)
    spread = np.sqrt(np.maximum(inside / (1 - load.rho), 1e-3))
    z = np.clip((c - inside) / spread, -8.0, 8.0)
    return np.asarray(spread * (1 - tail(z)) / density(z))


def places_of(
    room: Floats, held: Floats, need: Floats, share: Floats, decodes: Floats, whole: bool
) -> Floats:
    """Requests that a full cache holds on average, at least one, (n,): `room` (n,) less what the next request
    just does not fit into, E[need²] / 2 E[need] (`planner.queueing.admission`), over what one `held` (n, w)
    on average, buckets (w,) by their `share` and their decode steps; never more than prompts fit in. Where
    all hold as much from entry to end (`whole`) as many as fit. Infinite of a cache that takes nothing.

    >>> one = np.array([1.0])
    >>> of = np.array([26.0]), 10 * one[None], 8 * one[None], one, one
    >>> [places_of(*of, whole=whole) for whole in (True, False)]
    [array([3.]), array([2.2])]
    >>> places_of(np.array([15.0]), 10 * one[None], 8 * one[None], one, one, whole=False)
    array([1.])
    """
    weight = share * np.maximum(decodes, TINY)
    mean = held @ (weight / weight.sum())
    sent = need[:, share > 0]
    needed = np.maximum(need @ share, TINY)
    full = np.maximum((room - need**2 @ share / (2 * needed)) / np.maximum(mean, TINY), 1.0)
    enter = np.floor(room * (1 + ROUNDING) / np.maximum(sent.min(axis=1), TINY))
    full = np.minimum(full, np.maximum(enter, 1.0))
    if whole:
        most = sent.max(axis=1)
        fit = np.maximum(np.floor(room * (1 + ROUNDING) / np.maximum(most, TINY)), 1.0)
        full = np.where(most - sent.min(axis=1) <= ROUNDING * most, fit, full)
    return np.asarray(np.where(mean > 0, full, np.inf))
