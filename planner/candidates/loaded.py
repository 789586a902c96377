"""Columns of one setup at any share of their load, under the mix of requests that they serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.points import Points, at_rate, batched, prefilled
from planner.candidates.setup import Role, Setup, prefill_parts
from planner.designs.shape import Floats, Ints


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
        use = np.zeros((1, len(s.mix.share)))
        for row in c.bounds.values():
            for w, u in row.items():
                use[0, int(w)] = max(use[0, int(w)], u)
        role, ranks = s.does(c.role), np.array([float(c.design.attn_dp)])
        load = np.array([c.busy if role == "prefill" else c.sequences])
        whole = Loaded(s, role, np.array([index]), load, use, ranks)
        return whole.parts[0][1] if whole.parts else whole

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

    def at(self, shares: Sequence[float] | Floats) -> list[Points]:
        """The columns at each of `shares` of their load."""
        if self.role == "prefill":
            parts, which = prefill_parts(self.setup, self.index), np.arange(len(self.index))
            return [prefilled(self.setup, parts, which, share * self.load) for share in shares]
        return [batched(self.setup, self.index, share * self.load, self.role) for share in shares]

    def rates(self, asked: Sequence[Points]) -> Floats:
        """Requests/s of a replica at each, (m, k)."""
        return np.stack([p.rate * self.ranks for p in asked], axis=1)

    @property
    def share(self) -> Floats:
        """Share of each bucket among the requests that a column serves, (m, w)."""
        served = np.where(self.use > 0, self.setup.mix.share, 0.0)
        return np.asarray(served / np.maximum(served.sum(axis=1, keepdims=True), 1e-30))

    @property
    def full(self) -> Floats:
        """Requests/s of the mix that fill a replica, (m,)."""
        return np.asarray(1 / np.maximum((self.use * self.share).sum(axis=1), 1e-30))
