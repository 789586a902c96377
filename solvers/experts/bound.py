"""What no placement of experts can beat: the time of the hottest GPU, layer by layer.

Data       w[e] load   s[g] slots   v[g] speed   k = sum(g) s[g] - experts: slots beyond one an expert
mean       sum(e) w[e] / sum(g) v[g]
smallest   m slots of one GPU carry at least the m - k smallest w: an expert with r replicas takes r - 1
           of the k extra, and counts in full unless a replica is elsewhere. So max(g) smallest(s[g]) / v[g].
replica    a replica of e at time t has w[e]/r[e] <= max(g) v[g] t - smallest(s[g] - 1) beside it, so
           t is too small when sum(e) max(1, ceil(w[e] / that)) > sum(g) s[g].
Grouped    a node carries whole groups: see `experts_grouped`. Small instances: see `experts_exact`.
"""

from __future__ import annotations

import numpy as np

from solvers.experts.types import Floats, Ints


def balance_bound(load: Floats, slots: Ints, speed: Floats) -> Floats:
    """Time (rows,) of the hottest GPU that no placement of `load` (rows, experts) is below.

    >>> balance_bound(np.array([[9.0, 1.0, 2.0, 2.0]]), np.array([2, 2]), np.ones(2)).round(6).tolist()
    [10.0]
    """
    total, spare = int(slots.sum()), int(slots.sum()) - load.shape[1]
    mean = load.sum(1) / speed.sum()
    least = np.concatenate([np.zeros((len(load), 1)), np.cumsum(np.sort(load, axis=1), axis=1)], axis=1)
    full = least[:, np.maximum(slots - spare, 0)]
    beside = least[:, np.maximum(slots - 1 - spare, 0)]
    start = low = np.maximum(mean, (full / speed).max(1))
    high = low + load.max(1) / speed.max() + (beside / speed).max(1)
    if _enough(load, low, beside, speed, total).all():
        return np.asarray(low)
    for _ in range(60):
        middle = (low + high) / 2
        enough = _enough(load, middle, beside, speed, total)
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return np.asarray(np.where(_enough(load, start, beside, speed, total), start, low))


def _enough(load: Floats, time: Floats, beside: Floats, speed: Floats, slots: int) -> np.ndarray:
    """Whether the slots hold the replicas that rows of `time` need at the least."""
    room = (speed * time[:, None] - beside).max(1)
    replicas = np.ceil(load / np.maximum(room, 1e-300)[:, None] - 1e-9)
    return np.asarray(np.maximum(np.minimum(replicas, 1e12), 1).sum(1) <= slots)
