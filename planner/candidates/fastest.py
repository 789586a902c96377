"""Return where a server of one bucket serves most. More sequences share what a step takes by itself, so that
the rate rises with the batch. Where further ones cost more, it falls again before a limit is met: beyond 64
sequences all-reduces over PCIe take another way, and an exchange among experts outgrows its start-up."""

from __future__ import annotations

import numpy as np

from planner.candidates.points import rate_at
from planner.candidates.setup import Role, Setup
from planner.designs.shape import Floats, Ints

TRIED = 16
"""Batches that are looked at first, up to the largest: each a third larger than the one before where that is
700, so that a step of 64 sequences which is quicker by a third than one of 65 is seen between two of them."""

FEWEST = 8.0
"""The smallest of them, or an eighth of the largest: below, what a step takes by itself decides."""

NEAR = 0.97
"""Share of the largest batch that is looked at beside it: whether the rate still rises there."""

NEARER = 9
"""Batches looked at between two, again and again."""

ROUNDS = 4
"""Times that the section is narrowed: to 0.1 % of the batch and less."""

FLAT = 0.01
"""Where a little smaller batch serves so nearly as much as the largest, the most may lie between."""


def fastest(s: Setup, index: Ints, role: Role, largest: Floats) -> tuple[Floats, Floats]:
    """The batch (n,) up to `largest` at which a server of each design serves most, and a rate (n,) that no
    such batch exceeds: between the best looked at and the next, the rate rises no further than it falls."""
    first = np.minimum(FEWEST, largest / 8)
    batch, tries = largest.copy(), np.geomspace(first, largest * NEAR, TRIED, axis=1)
    tries = np.hstack([tries, largest[:, None]])
    rates = _rates(s, index, role, tries)
    most, bound = rates[:, -1].copy(), rates[:, -1].copy()
    falls = rates[:, :-1] > rates[:, 1:]
    falls[:, -1] |= rates[:, -2] > rates[:, -1] * (1 - FLAT)
    rows = np.flatnonzero(falls.any(axis=1))
    if not len(rows):
        return batch, bound
    tops, tries = np.where(falls, rates[:, :-1], 0.0)[rows].argmax(axis=1), tries[rows]
    one, lower = np.arange(len(rows)), np.zeros(len(rows))
    low, high = tries[one, np.maximum(tops - 1, 0)], tries[one, tops + 1]
    for _ in range(ROUNDS):
        near = np.geomspace(low, high, NEARER, axis=1)
        found = _rates(s, index[rows], role, near)
        best = found.argmax(axis=1)
        below, above = np.maximum(best - 1, 0), np.minimum(best + 1, NEARER - 1)
        low, high = near[one, below], near[one, above]
        lower = np.minimum(found[one, below], found[one, above])
        top = found[one, best]
        better = top > most[rows]
        batch[rows] = np.where(better, near[one, best], batch[rows])
        most[rows] = np.maximum(top, most[rows])
        bound[rows] = np.maximum(most[rows], 2 * top - lower)
    return batch, bound


def _rates(s: Setup, index: Ints, role: Role, batches: Floats) -> Floats:
    """Requests/s of servers with each of `batches` (n, k)."""
    many = batches.shape[1]
    return rate_at(s, np.repeat(index, many), batches.ravel(), role).reshape(batches.shape)
