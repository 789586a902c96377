"""Columns of one setup at any share of their load, under the mix of requests that they serve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.points import Points, at_rate, batched, prefilled
from planner.candidates.setup import Role, Setup, prefill_parts
from planner.cost.model import SPREAD
from planner.designs.shape import Floats, Ints

AT_ONCE = 10_000
"""Points that are asked at once: many are cheaper each than few, until they no longer fit a cache."""

BESIDE = 1e-6
"""Share of a load by which one is just before or after it."""


@dataclass(frozen=True)
class Loaded:
    """m columns that may be loaded less: designs `index` (m,) of a setup in a role; `load` (m,), sequences of
    a server or, where it only prefills, the share of its time; `use` (m, w) of a replica's fullest resource
    that one request/s fills, in the fleet's favour, 0 where a bucket is not served; servers of a replica
    (m,)."""

    setup: Setup
    role: Role
    index: Ints
    load: Floats
    use: Floats
    ranks: Floats

    @staticmethod
    def of(c: Candidate, s: Setup, index: int) -> Loaded:
        """One candidate, design `index` of `s`."""
        whole = Loaded.of_all([c], s, np.array([index]))
        return whole.parts[0][1] if whole.parts else whole

    @staticmethod
    def of_all(candidates: Sequence[Candidate], s: Setup, index: Ints) -> Loaded:
        """Candidates of one role, designs `index` of `s`."""
        use, role = np.zeros((len(candidates), len(s.mix.share))), s.does(candidates[0].role)
        for i, c in enumerate(candidates):
            for row in c.bounds.values():
                for w, u in row.items():
                    use[i, int(w)] = max(use[i, int(w)], u)
        ranks = np.array([float(c.design.attn_dp) for c in candidates])
        load = np.array([c.busy if role == "prefill" else c.sequences for c in candidates])
        return Loaded(s, role, index, load, use, ranks)

    @property
    def parts(self) -> list[tuple[Ints, Loaded]]:
        """The columns by the buckets that take of their time, each under the workload's mix of those; none of
        those that no bucket takes any of, which cost nothing."""
        mix, serves = self.setup.mix.share, self.use > 0
        if (serves == (mix > 0)).all():
            return [(np.arange(len(serves)), self)]
        found = []
        for own in (each for each in np.unique(serves, axis=0) if each.any()):
            rows = np.flatnonzero((serves == own).all(axis=1))
            found.append((rows, self.under(rows, mix * own / (mix * own).sum())))
        return found

    def under(self, rows: Ints, share: Floats) -> Loaded:
        """The columns `rows` where the mix `share` (w,) is all that they serve, up to the rate that fills
        them."""
        s, use = replace(self.setup, mix=replace(self.setup.mix, share=share)), self.use[rows] * (share > 0)
        role, index, ranks = s.does(self.role), self.index[rows], self.ranks[rows]
        full = at_rate(s, index, 1 / (use @ share) / ranks, role)
        return Loaded(s, role, index, full.load if role == "prefill" else full.sequences, use, ranks)

    def asked(self, shares: Floats, tell: Callable[[Loaded, Points], Floats]) -> Floats:
        """What `tell` says, (m, k, …), of the columns at each of `shares` (k,) or (m, k) of their load: it is
        given columns (r,) and their points there, many at once."""
        shares = np.broadcast_to(shares, (len(self.index), shares.shape[-1]))
        rows, load = np.arange(len(self.index)).repeat(shares.shape[1]), shares * self.load[:, None]
        parts = prefill_parts(self.setup, self.index) if self.role == "prefill" else None
        told = []
        for block in np.array_split(np.arange(len(rows)), max(math.ceil(len(rows) / AT_ONCE), 1)):
            which, own = rows[block], load.ravel()[block]
            part = replace(
                self, index=self.index[which], load=own, use=self.use[which], ranks=self.ranks[which]
            )
            if parts is not None:
                told.append(tell(part, prefilled(self.setup, parts, which, own)))
            else:
                told.append(tell(part, batched(self.setup, part.index, own, self.role)))
        return np.concatenate(told).reshape(*shares.shape, *told[0].shape[1:])

    @property
    def bends(self) -> Floats:
        """Shares of their load, (m, j), at which servers that decode hold a sequence, or one in each stage:
        there, and where finite differences of `step_times` reach so far, their steps are made linear in
        another way. Each just before and just after; of servers that only prefill there are none."""
        if self.role == "prefill":
            return np.zeros((len(self.index), 0))
        stages = self.setup.model.concurrent(self.setup.designs.take(self.index)).astype(np.float64)
        at = np.stack([np.ones_like(stages), stages], axis=1)[:, :, None] / np.array(
            [1 + SPREAD, 1, 1 - SPREAD]
        )
        each = at.reshape(len(stages), -1, 1) * np.array([1 - BESIDE, 1 + BESIDE])
        return np.asarray(each.reshape(len(stages), -1) / self.load[:, None])

    @property
    def share(self) -> Floats:
        """Share of each bucket among the requests that a column serves, (m, w)."""
        served = np.where(self.use > 0, self.setup.mix.share, 0.0)
        return np.asarray(served / np.maximum(served.sum(axis=1, keepdims=True), 1e-30))

    @property
    def full(self) -> Floats:
        """Requests/s of the mix that fill a replica, (m,)."""
        return np.asarray(1 / np.maximum((self.use * self.share).sum(axis=1), 1e-30))
