"""Experts' loads -> how full placement leaves the fullest rank, by `solvers/experts*.py`.

Loads are those recorded, or drawn from the law that is assumed without a report
(`planner/cost/popularity.py`): then an engine that is not told to balance holds experts in the checkpoint's
order, and one that has copies to place is taken to know the loads. Recorded loads are balanced with copies
and without. Where they come in steps, placement sees their sum and every step is judged: what drifts is not
balanced away.
"""

from __future__ import annotations

import numpy as np

from planner.cost.popularity import SPREAD, Popularity
from planner.designs.shape import Floats, Ints
from solvers import experts
from solvers.experts import balance as experts_balance
from solvers.experts.bound import balance_bound
from solvers.experts.types import ExpertsProblem, ExpertsSolution
from solvers.linear import Limits

NEAR = 5e-3
"""How close to the bound a quick placement is good enough to price a design by."""

DRAWS = 256
"""Samples of a layer's loads: the assumed ones are the means of their ranks."""


class Balanced(Popularity):
    """`tokens` (steps, layers, experts) from `source`, or None: the assumed law."""

    def __init__(self, tokens: Floats | None = None, source: str = "assumed") -> None:
        self.tokens, self.source = tokens, source
        self._known: dict[tuple[int, int, int], float] = {}

    def hottest(self, experts: int, ep: int, redundant: int) -> float:
        """After a quick placement: within a percent or two of the best there is."""
        if ep == 1 or (self.tokens is None and not redundant):
            return super().hottest(experts, ep, redundant)
        key = (experts, ep, redundant)
        if key not in self._known:
            loads = assumed(experts) if self.tokens is None else self.tokens
            self._known[key] = fullest(loads, _quick(loads.sum(axis=0), ep, redundant))
        return self._known[key]

    def in_order(self, experts: int, ep: int) -> float:
        """How full the fullest rank is with the experts in order, by the recorded loads, where there are
        any."""
        if self.tokens is None or ep == 1:
            return super().in_order(experts, ep)
        slots = np.array_split(np.arange(experts), ep)
        most = max(map(len, slots))
        held = np.array([np.pad(own, (0, most - len(own)), constant_values=-1) for own in slots])
        return fullest(self.tokens, np.broadcast_to(held, (self.tokens.shape[1], *held.shape)))


def assumed(experts: int) -> Floats:
    """One layer's loads (1, 1, experts) by the assumed law, largest last; their mean is near 1."""
    shape = SPREAD**-2
    draws = np.random.default_rng(0).gamma(shape, 1 / shape, (DRAWS, experts))
    return np.asarray(np.sort(draws, axis=1).mean(axis=0)[None, None])


def fullest(tokens: Floats, placed: Ints) -> float:
    """Tokens of the fullest rank over the mean rank's, mean over steps and layers: of `tokens` (steps,
    layers, experts), `placed` (layers, ranks, slots); -1: no expert there."""
    ranks = placed.shape[1]
    full = np.stack([experts_balance.times(step, placed, np.ones(ranks)).max(axis=1) for step in tokens])
    return float((full * ranks / tokens.sum(axis=2)).mean())


def place(tokens: Floats, ep: int, redundant: int, ranks_per_node: int, limits: Limits) -> ExpertsSolution:
    """Where the experts of every layer go, by `tokens` (layers, experts), so that the hottest rank is as cool
    as can be."""
    node = np.arange(ep, dtype=np.int64) // ranks_per_node
    return experts.solve(ExpertsProblem(tokens, _slots(tokens, ep, redundant), node), limits=limits)


def _quick(tokens: Floats, ep: int, redundant: int) -> Ints:
    """A placement (layers, ranks, slots) without search."""
    slots, speed = _slots(tokens, ep, redundant), np.ones(ep)
    counts = experts_balance.apportion(tokens, int(slots.sum()))
    ids = np.stack([np.repeat(np.arange(tokens.shape[1]), r) for r in counts])
    bound = balance_bound(tokens, slots, speed)
    return experts_balance.pack(tokens, ids, slots, speed, bound * (1 + NEAR))


def _slots(tokens: Floats, ep: int, redundant: int) -> Ints:
    return np.full(ep, (tokens.shape[1] + redundant) // ep, dtype=np.int64)
