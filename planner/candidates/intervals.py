"""What columns cost at some of their loads, from below: lines that need to hold there alone.

Watts rise steeply from none to a few requests and slowly after that, as a step reads the weights whatever its
batch. Lines that hold at all loads lie up to a third below that; between two loads they are near. Only for
columns that serve one bucket, whose rate is their load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.hull import edges
from planner.candidates.loaded import Loaded
from planner.candidates.setup import Setup
from planner.candidates.tangents import LINES, SHARES, Hull, Line
from planner.designs.shape import Floats, Ints

EVENLY = np.linspace(0.02, 1.0, 50)
"""Shares of a column's load at which its curve is asked besides those of its lines: there fleets stand."""


@dataclass(frozen=True)
class Curve:
    """What one replica draws for `sure`, (k,), at each `rate` (k,) [1/s], which ascend."""

    rate: Floats
    sure: Floats

    def nearest(self, rates: Iterable[float]) -> tuple[float, ...]:
        """Of the rates inside the curve, those nearest to `rates`, each once."""
        inside = self.rate[1:-1]
        return tuple(sorted({float(inside[np.abs(inside - rate).argmin()]) for rate in rates}))

    def lines(self, bucket: str, low: float, high: float) -> tuple[Line, ...]:
        """Lines below the curve from `low` to `high`, two of its own rates, or beyond its ends."""
        own = (self.rate >= low) & (self.rate <= high)
        x, y = self.rate[None, own], self.sure[None, own]
        if low <= 0:
            x, y = np.pad(x, ((0, 0), (1, 0))), np.pad(y, ((0, 0), (1, 0)), mode="edge")
        a, slope = (side[0] for side in edges(x, y))
        hull, below, chosen = a + slope * x[0], np.zeros(x.shape[1]), set[int]()
        for _ in range(LINES["watts"]):
            k = int(((hull - below) / np.maximum(hull, 1e-30)).argmax())
            below = np.maximum(below, a[k] + slope[k] * x[0])
            chosen.add(k)
        return tuple((float(a[k]), {bucket: float(slope[k])}) for k in sorted(chosen))


_KNOWN: WeakKeyDictionary[Candidate, Curve] = WeakKeyDictionary()
"""Curves that were asked for: the fleets that explain a plan are looked for among the same candidates."""


def curves(members: Sequence[Candidate], s: Setup, index: Ints) -> list[Curve]:
    """The curve of each candidate of one role, designs `index` (m,) of one setup."""
    new = [i for i, c in enumerate(members) if c not in _KNOWN]
    if new:
        hull = Hull.of(_columns([members[i] for i in new], s, index[new]), "watts", _SHARES)
        for i, rate, sure in zip(new, hull.rate, hull.sure, strict=True):
            _KNOWN[members[i]] = Curve(rate, sure)
    return [_KNOWN[c] for c in members]


_SHARES = np.sort(np.concatenate([SHARES["watts"], EVENLY]))


def _columns(members: Sequence[Candidate], s: Setup, index: Ints) -> Loaded:
    """The columns as arrays."""
    role, use = s.does(members[0].role), np.zeros((len(members), len(s.mix.share)))
    for i, c in enumerate(members):
        for row in c.bounds.values():
            for w, u in row.items():
                use[i, int(w)] = max(use[i, int(w)], u)
    load = np.array([c.busy if role == "prefill" else c.sequences for c in members])
    return Loaded(s, role, index, load, use, np.array([float(c.design.attn_dp) for c in members]))
