"""Balance: replicas of each expert and the GPUs they are on, so that the hottest GPU is as cool as possible.

Data       w[e]  load of expert e [token]    s[g]  slots of GPU g    v[g]  its speed [token a unit of time]
Choose     r[e]  integer >= 1                replicas, sum(e) r[e] == sum(g) s[g]
           x[e,g] integer >= 0               of these on g, sum(g) x[e,g] == r[e], sum(e) x[e,g] == s[g]
minimise   max(g) sum(e) x[e,g] * w[e]/r[e] / v[g]

Replicas   the least t with sum(e) max(1, ceil(w[e]/t)) <= sum(g) s[g], by bisection, and what is left
           one by one where a replica carries most: no other r has a smaller largest w[e]/r[e].
Placement  largest first to the GPU that would finish it first; then the hottest GPU exchanges one or two
           replicas with the one where the hotter of the pair ends coolest, until none cools it;
           then a replica of one expert becomes another's, or slots are exchanged at random, and so again.
All rows (layers, or copies of them) advance together; arrays are (rows, gpus, slots), -1 where there is none.

Assumes    tokens of an expert are shared equally by its replicas.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from solvers.experts.types import Floats, Ints

CLOSE = 1e-9
PAIRS_OF_PAIRS = 1600
"""Exchanges of two for two are tried where a pair of GPUs has no more of them than this."""
COPIES, ROUNDS, PATIENCE = 24, 80, 16
"""Copies of rows that are disturbed at once, together; how often, and how often in vain."""
WORTH = 5e-4
"""Relative distance from the bound at which disturbing stops."""


def apportion(load: Floats, slots: int) -> Ints:
    """Replicas (rows, experts) with the smallest largest load a replica.

    >>> apportion(np.array([[90.0, 40.0, 10.0]]), 5).tolist()
    [[3, 1, 1]]
    """
    low, high = load.sum(1) / slots / 2, np.maximum(load.max(1), 1e-300)
    for _ in range(50):
        middle = (low + high) / 2
        enough = np.maximum(np.ceil(load / np.maximum(middle, 1e-300)[:, None]), 1).sum(1) <= slots
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    counts = np.maximum(np.ceil(load / high[:, None] - CLOSE), 1).astype(np.int64)
    left = slots - counts.sum(1)
    while (rows := np.flatnonzero(left > 0)).size:
        counts[rows, (load[rows] / counts[rows]).argmax(1)] += 1
        left[rows] -= 1
    return np.asarray(counts)


def times(load: Floats, placed: Ints, speed: Floats) -> Floats:
    """Time (rows, gpus) of a placement (rows, gpus, slots)."""
    return np.asarray(_carried(load, placed).sum(2) / speed)


def counted(placed: Ints, experts: int) -> Ints:
    """Replicas (rows, experts) of a placement (rows, gpus, slots)."""
    rows = len(placed)
    at = (np.arange(rows)[:, None] * (experts + 1) + placed.reshape(rows, -1) + 1).ravel()
    return np.bincount(at, minlength=rows * (experts + 1)).reshape(rows, experts + 1)[:, 1:]


def _carried(load: Floats, placed: Ints) -> Floats:
    """Load of the replica in each slot, 0 where there is no slot."""
    each = load / np.maximum(counted(placed, load.shape[1]), 1)
    each = np.concatenate([each, np.zeros((len(each), 1))], axis=1)
    return np.take_along_axis(each, placed.reshape(len(placed), -1), 1).reshape(placed.shape)


def balance(load: Floats, slots: Ints, speed: Floats, bound: Floats, seed: int = 0) -> Ints:
    """A placement (rows, gpus, most slots) of `load` (rows, experts); stops near the times `bound`."""
    counts = apportion(load, int(slots.sum()))
    ids = np.stack([np.repeat(np.arange(load.shape[1]), r) for r in counts])
    placed = pack(load, ids, slots, speed, bound)
    rng = np.random.default_rng(seed)
    worst = times(load, placed, speed).max(1)
    idle = 0
    for _ in range(ROUNDS):
        rows = np.flatnonzero(worst > bound * (1 + WORTH))
        if not rows.size or idle > PATIENCE:
            break
        idle += 1
        rows = np.repeat(rows, max(1, COPIES // rows.size))
        tried = placed[rows].copy()
        _disturb(load[rows], tried, rng)
        descend(load[rows], tried, speed, bound[rows])
        reached = times(load[rows], tried, speed).max(1)
        for i in np.argsort(-reached, kind="stable"):  # the best of a row's copies is written last
            if reached[i] < worst[rows[i]] * (1 - CLOSE):
                worst[rows[i]], placed[rows[i]], idle = reached[i], tried[i], 0
    return placed


def pack(load: Floats, ids: Ints, slots: Ints, speed: Floats, bound: Floats) -> Ints:
    """Place the replicas `ids` (rows, all slots): largest first, then exchanges."""
    rows, most = np.arange(len(ids)), int(slots.max())
    each = np.take_along_axis(load / np.maximum(counted(ids[:, None], load.shape[1]), 1), ids, 1)
    order = np.argsort(-each, axis=1, kind="stable")
    placed = np.full((len(ids), len(slots), most), -1, dtype=np.int64)
    filled, carried = np.zeros((2, len(ids), len(slots)))
    filled = filled.astype(np.int64)
    for j in range(ids.shape[1]):
        expert, weight = ids[rows, order[:, j]], each[rows, order[:, j]]
        done = (carried + weight[:, None]) / speed
        gpu = np.where(filled < slots, done, np.inf).argmin(1)
        placed[rows, gpu, filled[rows, gpu]] = expert
        carried[rows, gpu] += weight
        filled[rows, gpu] += 1
    descend(load, placed, speed, bound)
    return placed


def descend(load: Floats, placed: Ints, speed: Floats, bound: Floats) -> None:
    """Exchange replicas of the hottest GPU, in place, until no exchange cools it or it is at `bound`."""
    real, item = placed >= 0, _carried(load, placed)
    item[~real] = 1e6 * (1 + item.max())  # an exchange of it for a replica helps nowhere
    live = np.arange(len(placed))
    sizes = _subsets(placed.shape[2])
    while live.size:
        n, x = np.arange(live.size), item[live]
        carried = np.where(real[live], x, 0.0).sum(2)
        hot = (carried / speed).argmax(1)
        now = carried[n, hot] / speed[hot]
        found = [_best_exchange(x, carried, hot, speed, subset) for subset in sizes]
        value = np.stack([v for v, *_ in found])
        best = value.argmin(0)
        better = (value[best, n] < now * (1 - CLOSE)) & (now > bound[live])
        for k, (_, gpu, mine, theirs) in enumerate(found):
            rows = np.flatnonzero(better & (best == k))
            at = live[rows][:, None]
            here = (at, hot[rows][:, None], sizes[k][mine[rows]])
            there = (at, gpu[rows][:, None], sizes[k][theirs[rows]])
            for array in (item, placed, real):
                array[here], array[there] = array[there], array[here]
        live = live[better]


def _subsets(most: int) -> list[Ints]:
    """Positions of the replicas that an exchange may move together."""
    pairs = most * (most - 1) // 2
    sizes = [1, 2] if most > 3 and pairs * pairs <= PAIRS_OF_PAIRS else [1]
    return [np.array(list(combinations(range(most), k))) for k in sizes]


def _best_exchange(
    x: Floats, carried: Floats, hot: Ints, speed: Floats, subset: Ints
) -> tuple[Floats, Ints, Ints, Ints]:
    """For each row the time of the hotter of two GPUs, the other GPU, and the subsets they exchange."""
    n, size = np.arange(len(x)), len(subset)
    sums = x[:, :, subset].sum(3)
    shift = sums[n, hot][:, None, :, None] - sums[:, :, None, :]
    if (speed == speed[0]).all():  # the hotter: half of both, and how far from half the hot one ends
        half = carried[n, hot][:, None] / 2 - carried / 2
        np.abs(np.subtract(shift, half[:, :, None, None], out=shift), out=shift)
        shift += (carried[n, hot][:, None] / 2 + carried / 2)[:, :, None, None]
        shift /= speed[0]
    else:
        here = (carried[n, hot][:, None, None, None] - shift) / speed[hot][:, None, None, None]
        shift = np.maximum(here, (carried[:, :, None, None] + shift) / speed[None, :, None, None])
    flat = shift.reshape(len(x), -1)
    at = flat.argmin(1)
    return flat[n, at], at // (size * size), at // size % size, at % size


def _disturb(load: Floats, placed: Ints, rng: np.random.Generator) -> None:
    """One replica becomes another expert's, and some slots are exchanged, at random and in place."""
    rows, (_, gpus, most) = len(placed), placed.shape
    flat = placed.reshape(rows, gpus * most)
    counts = counted(placed, load.shape[1])
    n = np.arange(rows)
    spare = np.where(flat >= 0, np.take_along_axis(counts, np.maximum(flat, 0), 1) > 1, False)
    slot = np.where(spare, rng.random(flat.shape), -1.0).argmax(1)
    heavy = load / counts
    grown = (heavy * rng.random(heavy.shape) ** 3).argmax(1)
    change = spare.any(1) & (rng.random(rows) < 0.8)
    flat[n[change], slot[change]] = grown[change]
    for _ in range(2):
        a, b = _any_slot(flat, rng), _any_slot(flat, rng)
        flat[n, a], flat[n, b] = flat[n, b], flat[n, a]


def _any_slot(flat: Ints, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.asarray(np.where(flat >= 0, rng.random(flat.shape), -1.0).argmax(1))
