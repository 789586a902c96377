"""Moves: the placement of a layer near the best balance that copies the fewest weights to other GPUs.

The time that no GPU may exceed is (1 + within) times what the best placement reached. Small layers are solved
exactly (`experts_small`, which states the program); others by search from the present placement, and from the
best one with its GPUs renamed (an assignment), under the bound of `experts_moves_bound`. A GPU that has a
weight already copies it to another slot for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from solvers.experts.balance import times
from solvers.experts.moves_bound import fewest_copies
from solvers.experts.moves_search import Search
from solvers.experts.small import moved, small
from solvers.experts.types import Floats, Ints, Place, table
from solvers.linear import Limits, Status, judge

EXACT_S = 5.0
FEW, TURNS, STARTS = 64, 250, 2
"""Slots up to which the search oscillates, how many moves, and how often."""
ROUNDS = 4
"""Times that a part of the best is undone and repaired; each saves a few percent."""
CLOSE = 1e-7


@dataclass(frozen=True)
class MovesProblem:
    """`load_tok` (layers, experts); `slots`, `speed` (gpus,); `held`: experts on each GPU now, `best`: in the
    placement of best balance, one entry a layer; `within`: how far above its time a GPU may come."""

    load_tok: Floats
    slots: Ints
    speed: Floats
    held: Sequence[Place]
    best: Sequence[Place]
    within: float = 0.01


@dataclass(frozen=True)
class MovesSolution:
    """One entry a layer: `place`, `copies` to GPUs without the expert, `balance`."""

    status: Status
    objective: float
    bound: float
    place: list[Place]
    copies: Ints
    balance: Floats


def solve(p: MovesProblem, limits: Limits | None = None) -> MovesSolution:
    """Place all layers; `objective` and `bound` are copies in all."""
    limits = limits or Limits(seconds=30.0)
    stop = time.perf_counter() + limits.seconds
    place, copies, bound, balance = [], [], [], []
    for at, load in enumerate(p.load_tok):
        share = (stop - time.perf_counter()) / (len(p.load_tok) - at)
        left = replace(limits, seconds=max(0.02, share), seed=limits.seed + at)
        expert, least = _layer(p, at, left)
        slots = table(expert, p.slots)
        place.append([gpu[gpu >= 0].tolist() for gpu in slots])
        copies.append(copied(place[-1], p.held[at]))
        bound.append(min(least, copies[-1]))
        reached = float(times(load[None], slots[None], p.speed).max())
        balance.append(reached * p.speed.sum() / load.sum())
    value, proven = float(sum(copies)), float(sum(bound))
    status = judge(value, proven, limits, "time_limit")
    return MovesSolution(status, value, proven, place, np.array(copies), np.array(balance, dtype=float))


def copied(place: Place, held: Place) -> int:
    """Weights that GPUs take which do not hold them.

    >>> copied([[0, 1], [2, 2]], [[0, 2], [1, 2]])
    1
    """
    return sum(len(set(new) - set(old)) for new, old in zip(place, held, strict=True))


def _layer(p: MovesProblem, at: int, limits: Limits) -> tuple[Ints, int]:
    """Experts in the slots, and copies that no placement is below."""
    load, held = p.load_tok[at], _on(p.held[at], p.load_tok.shape[1])
    best = _renamed(p.best[at], held, p.slots, p.speed)
    gpu = np.repeat(np.arange(len(p.slots)), p.slots)
    each = (load / np.bincount(best, minlength=len(load)))[best]
    limit = float((np.bincount(gpu, each, len(p.slots)) / p.speed).max()) * (1 + p.within)
    search = Search(load, p.speed, gpu, held, limit * (1 + CLOSE), limits.seed)
    now = _fitted(p.held[at], load, p.slots)
    if now is not None:
        _improved(search, now, limits.seconds / 2)
    if search.best is None:
        search.offer(search.trimmed(best))
    least = 0 if search.copies == 0 else fewest_copies(load, p.speed, held, search.limit, limits)
    if search.copies > least and small(len(load), p.slots):
        left = replace(limits, seconds=min(limits.seconds, EXACT_S))
        exact, proven = moved(load, p.slots, p.speed, held, limit, left)
        search.offer(exact)
        least = max(least, proven)
    assert search.best is not None
    return search.best, least


def _improved(search: Search, now: Ints, seconds: float) -> None:
    """From the present placement (slots,): repair, part of it anew, and where slots are few every way."""
    stop = time.perf_counter() + seconds
    search.offer(search.repaired(now))
    for _ in range(ROUNDS):
        if time.perf_counter() > stop or search.best is None or search.copies == 0:
            break
        search.offer(search.again(now))
    for _ in range(STARTS if len(now) <= FEW and search.copies else 0):
        search.oscillate(now, TURNS)


def _on(place: Place, experts: int) -> np.ndarray:
    """Whether (experts, gpus) the GPU holds it."""
    on = np.zeros((experts, len(place)), dtype=bool)
    for g, held in enumerate(place):
        on[[e for e in held if e < experts], g] = True
    return on


def _renamed(place: Place, held: np.ndarray, slots: Ints, speed: Floats) -> Ints:
    """The placement with alike GPUs renamed, so that most of what they hold is theirs already."""
    overlap = _on(place, len(held)).astype(int).T @ held
    kinds = np.array([slots, speed])
    alike = (kinds[:, :, None] == kinds[:, None, :]).all(0)
    new, gpu = linear_sum_assignment(np.where(alike, -overlap, 1 + overlap.sum()))
    renamed = dict(zip(gpu.tolist(), new.tolist(), strict=True))
    return np.array([e for g in range(len(place)) for e in place[renamed[g]]], dtype=np.int64)


def _fitted(place: Place, load: Floats, slots: Ints) -> Ints | None:
    """The present placement in the slots; None where it does not fit or misses an expert.

    A free slot repeats what its GPU holds most of, which costs no copy.
    """
    expert: list[int] = []
    for own, room in zip(place, slots.tolist(), strict=True):
        if len(own) > room or not own:
            return None
        expert += [*own, *[max(own, key=lambda e: load[e])] * (room - len(own))]
    return np.array(expert, dtype=np.int64) if len(set(expert)) == len(load) else None
