"""Servers over time, as numbers: kinds of server, what slots need, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solvers.linear.program import Floats, Status, gap

NEAR = 1e-9
"""Share of the largest demand by which a slot may be short: rounding."""


@dataclass(frozen=True, eq=False)
class Kind:
    """Servers alike; see `solvers/schedule`. `capacity`: of a server, or by need and slot (d, t).
    `of`: the machines that it runs on, which kinds of that name share (its own without)."""

    name: str
    capacity: float | Floats
    price_usd_per_hour: float
    most: int
    cold_hours: float = 0.0
    up_slots: int = 1
    reserved: float | None = None
    risky: bool = False
    of: str = ""


@dataclass(frozen=True, eq=False)
class Problem:
    """Demand of each slot, (t,), or of several needs (d, t), and the kinds of server that may carry it.
    Raises ValueError where figures are none."""

    kinds: tuple[Kind, ...]
    demand: Sequence[float] | Floats
    hours: float
    safe: float = 0.0

    def __post_init__(self) -> None:
        if not self.kinds or not self.needs.size or not np.isfinite(self.needs).all() or self.needs.min() < 0:
            raise ValueError("a schedule needs kinds, and a demand that is a number in each slot")
        capacity = self.capacity
        if self.hours <= 0 or not np.isfinite(capacity).all() or capacity.min() < 0:
            raise ValueError("hours of a slot are above 0, capacities are numbers")
        if (capacity.max(axis=(1, 2)) <= 0).any():
            raise ValueError("a server that carries nothing is none")
        for own in self.machines:
            alike = [self.kinds[i] for i in own]
            if len({(k.price_usd_per_hour, k.most, k.reserved, k.risky) for k in alike}) > 1:
                raise ValueError("kinds on the same machines share price, number and what they are")

    @cached_property
    def needs(self) -> Floats:
        """Demand, (d, t)."""
        return np.atleast_2d(np.asarray(self.demand, dtype=float))

    @cached_property
    def capacity(self) -> Floats:
        """Of a server of each kind, for each need in each slot, (k, d, t)."""
        return np.stack(
            [np.broadcast_to(np.asarray(k.capacity, float), self.needs.shape) for k in self.kinds]
        )

    @cached_property
    def machines(self) -> list[list[int]]:
        """The kinds that run on each sort of machine."""
        found: dict[str, list[int]] = {}
        for k, kind in enumerate(self.kinds):
            found.setdefault(kind.of or kind.name, []).append(k)
        return list(found.values())

    @property
    def slots(self) -> int:
        return int(self.needs.shape[1])

    def on(self, n: np.ndarray) -> np.ndarray:
        """Machines of each sort in use, (g, t), of counts (k, t)."""
        return np.stack([n[own].sum(axis=0) for own in self.machines])

    @property
    def sure(self) -> Floats:
        """1 for each kind that nobody takes away, (k,)."""
        return np.array([float(not k.risky) for k in self.kinds])

    def cost(self, n: np.ndarray, r: Sequence[int]) -> float:
        """Dollars of counts (k, t) with `r` (g,) machines reserved."""
        whole = 0.0
        for own, used, kept in zip(self.machines, self.on(n), r, strict=True):
            kind = self.kinds[own[0]]
            beyond = np.maximum(used - kept, 0).sum() + (kind.reserved or 0.0) * kept * self.slots
            whole += kind.price_usd_per_hour * self.hours * beyond
        for kind, mine in zip(self.kinds, n, strict=True):
            whole += kind.price_usd_per_hour * kind.cold_hours * np.maximum(np.diff(mine), 0).sum()
        return float(whole)

    def carries(self, n: np.ndarray) -> bool:
        """Whether counts (k, t) carry every slot."""
        near = NEAR * max(float(self.needs.max()), 1.0)
        carried = np.einsum("kdt,kt->dt", self.capacity, n)
        safe = np.einsum("kdt,kt->dt", self.capacity * self.sure[:, None, None], n)
        return bool((carried >= self.needs - near).all() and (safe >= self.safe * self.needs - near).all())

    def keeps(self, n: np.ndarray) -> bool:
        """Whether counts (k, t) keep every row."""
        if not self.carries(n):
            return False
        most = [self.kinds[own[0]].most for own in self.machines]
        if (self.on(n) > np.array(most)[:, None]).any():
            return False
        for kind, mine in zip(self.kinds, n, strict=True):
            starts = np.maximum(np.diff(mine, prepend=0), 0)
            if (mine < np.convolve(starts, np.ones(kind.up_slots))[: len(mine)]).any():
                return False
        return True


@dataclass(frozen=True, eq=False)
class Solution:
    """Counts (k, t), reserved machines (g,), dollars over all slots, the least that any schedule costs, and
    how the search ended. No counts where there is no schedule."""

    counts: np.ndarray | None
    reserved: tuple[int, ...]
    value: float | None
    bound: float | None
    status: Status
    solver: str

    @property
    def gap(self) -> float:
        """|value - bound| / value."""
        known = self.value is not None and self.bound is not None
        return gap(self.value, self.bound) if known else np.inf  # type: ignore[arg-type]


def reserve(p: Problem, n: np.ndarray) -> list[int]:
    """The cheapest reserved machines (g,) of counts (k, t): as many as run in more than `reserved` of all
    slots."""
    found = []
    for own, used in zip(p.machines, p.on(n), strict=True):
        share = p.kinds[own[0]].reserved
        most = int(used.max())
        busy = (used[:, None] > np.arange(most)).mean(axis=0) if most else np.zeros(0)
        found.append(0 if share is None else int((busy > share).sum()))
    return found
