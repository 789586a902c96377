"""What the copies of a layer's weights to other GPUs cannot be below, when no GPU may exceed a time.

Data       w[e] load   v[g] speed   t time   held[e,g]  1 where g holds e now
           room  max(g) v[g] * t       need[e]  GPUs that must hold e: the fewest whose v[g] * t reach w[e]
Choose     m[e]   integer >= 0   copies of e to GPUs without it, at least need[e] - sum(g) held[e,g]
           f[e,g] real >= 0      load of e that stays on g; only where held[e,g] == 1
minimise   sum(e) m[e]
carry[e]   sum(g) f[e,g] + min(w[e], room) * m[e] >= w[e]
time[g]    sum(e) f[e,g] <= v[g] * t

True for any placement: it forgets slots, that replicas share equally, and the time of the GPUs copied to.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.experts.types import Floats
from solvers.linear import Limits, Linear, total

NODES = 50
"""Nodes of branch and bound at most: most layers need none."""


def fewest_copies(load: Floats, speed: Floats, held: np.ndarray, limit: float, limits: Limits) -> int:
    """A whole number that the copies of any placement within the time `limit` are not below.

    `load` (experts,), `speed` (gpus,), `held` (experts, gpus).

    >>> held = np.array([[True, False], [True, False], [False, True]])
    >>> fewest_copies(np.array([5.0, 3.0, 2.0]), np.ones(2), held, 6.0, Limits())
    1
    """
    reach = np.cumsum(np.sort(speed)[::-1]) * limit
    need = np.searchsorted(reach, load * (1 - 1e-9)) + 1
    short = np.maximum(need - held.sum(1), 0)
    most = np.minimum(load, speed.max() * limit)
    own = [np.flatnonzero(h).tolist() for h in held]
    m = Linear("copies")
    copies = m.integers("m", range(len(load)), float(len(speed)))
    stays = m.reals("f", [(e, g) for e, gpus in enumerate(own) for g in gpus])
    m.minimise([1.0 * copies[e] for e in copies])
    for e, gpus in enumerate(own):
        m.lower[copies[e].column] = float(min(short[e], len(speed)))
        if load[e] > 0:
            carried = [*(1.0 * stays[e, g] for g in gpus), float(most[e]) * copies[e]]
            m.add("carry", e, total(carried) >= float(load[e]))
    for g, row in enumerate(held.T):
        if row.any():
            kept = total(stays[int(e), g] for e in np.flatnonzero(row))
            m.add("time", g, kept <= float(speed[g] * limit * (1 + 1e-9)))
    outcome = m.solve(replace(limits, gap=0.0, work=NODES))
    return max(int(short.sum()), int(np.ceil((outcome.bound or 0.0) - 1e-6)))
