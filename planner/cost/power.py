"""Watts of one GPU from how busy its arithmetic units and memory are; how much a power limit slows it."""

from __future__ import annotations

import numpy as np

from planner.cost.efficiency.reading import Table
from planner.designs.shape import Floats

IDLE_SHARE = 0.12
"""Draw of an idle data-centre GPU with a model loaded, as a share of its limit (70-90 W of 700 W on H100)."""

SLOWED_MEMORY, SLOWED_ARITHMETIC, HELD_SHARE = 0.0607, 0.161, 0.458
"""Of work bound by memory, of work bound by arithmetic: how much of a limit's bite is time; and the share of
the draw that no lower clock saves. Fitted to 59 points of 15 public sweeps of limits on five cards
(`benchmarks/power_sweeps.py`)."""

LEAST_SHARE = 0.5
"""Of what it would draw, the least that a GPU is limited to: below it nothing was measured."""


def slowdown(allowed: Floats, arithmetic: Floats) -> Floats:
    """How many times as long a step takes on a GPU limited to the share `allowed` of the watts that it would
    draw: 1 + a (1 - x) / (x - h), with x not below LEAST_SHARE, a between the two kinds of work by the share
    `arithmetic` of its seconds at peak rates that are arithmetic's.

    Clocks fall until the draw fits: arithmetic waits for them, memory hardly does. Error, of cards left out
    of the fit: 1 % median, 9 % at nine points in ten (`python -m benchmarks.power`). The sweeps are of
    desktop and workstation cards; that data-centre GPUs bend alike is an assumption.

    >>> slowdown(np.array([1.0, 0.7, 0.7]), np.array([1.0, 1.0, 0.0])).round(3)
    array([1.   , 1.2  , 1.075])
    """
    x = np.clip(allowed, LEAST_SHARE, 1.0)
    a = SLOWED_MEMORY + (SLOWED_ARITHMETIC - SLOWED_MEMORY) * np.clip(arithmetic, 0.0, 1.0)
    return np.asarray(1 + a * (1 - x) / (x - HELD_SHARE))


def busy_watts(table: Table, tdp_watts: float, compute: Floats, memory: Floats) -> Floats:
    """Watts of one busy GPU: base + limit*(a*compute + b*memory) up to its limit.

    `compute`, `memory`: shares of peak FLOP/s and of bandwidth. Measured where the device's table has
    `base_watts`; else shares of the TDP. Error: 25 % median of kernels (`python -m benchmarks.power`).

    >>> busy_watts({"base": 0.4, "compute": 0.8, "memory": 0.5}, 700.0, *np.array([[0.0], [0.6]]))
    array([490.])
    """
    limit = float(table.get("limit_watts", tdp_watts))
    base = float(table["base_watts"]) if "base_watts" in table else table["base"] * limit
    return np.asarray(
        np.minimum(limit, base + limit * (table["compute"] * compute + table["memory"] * memory))
    )


def mean_watts(busy: Floats, utilisation: Floats, limit_watts: float) -> Floats:
    """Watts of one GPU that draws `busy` a share `utilisation` of the time, and else what it does at rest.

    >>> mean_watts(np.array([484.0]), np.array([0.5]), 700.0)
    array([284.])
    """
    idle = idle_watts(limit_watts)
    return np.asarray(idle + np.clip(utilisation, 0.0, 1.0) * (busy - idle))


def idle_watts(limit_watts: float) -> float:
    """Watts of a GPU that has nothing to do, by its limit. Error: some 40 %; small cards draw a larger share.

    >>> idle_watts(700.0)
    84.0
    """
    return IDLE_SHARE * limit_watts
