"""Watts of one GPU from how busy its arithmetic units and memory are."""

from __future__ import annotations

import numpy as np

from planner.cost.efficiency.reading import Table
from planner.designs.shape import Floats

IDLE_SHARE = 0.12
"""Draw of an idle data-centre GPU with a model loaded, as a share of its limit (70-90 W of 700 W on H100)."""


def activity_watts(
    table: Table, tdp_watts: float, utilisation: Floats, compute: Floats, memory: Floats
) -> Floats:
    """Watts of one GPU: idle when it is not `utilisation`, else base + limit*(a*compute + b*memory) up to its
    limit.

    `compute`, `memory`: shares of peak FLOP/s and of bandwidth while busy. Measured where the device's table
    has `base_watts`; else shares of the TDP. Error: 10-27 % median of measured kernels.

    >>> activity_watts({"base": 0.4, "compute": 0.8, "memory": 0.5}, 700.0, *np.array([[1.0], [0.0], [0.6]]))
    array([490.])
    """
    limit = float(table.get("limit_watts", tdp_watts))
    base = float(table["base_watts"]) if "base_watts" in table else table["base"] * limit
    busy = np.minimum(limit, base + limit * (table["compute"] * compute + table["memory"] * memory))
    idle = idle_watts(limit)
    return np.asarray(idle + np.clip(utilisation, 0.0, 1.0) * (busy - idle))


def idle_watts(limit_watts: float) -> float:
    """Watts of a GPU that has nothing to do, by its limit. Error: some 40 %; small cards draw a larger share.

    >>> idle_watts(700.0)
    84.0
    """
    return IDLE_SHARE * limit_watts
