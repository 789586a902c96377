"""What a placement of experts is given, what it may choose, and what it answers. Units are in the names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvers.linear import Status

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Objective = Literal["balance", "combined", "traffic"]
Place = list[list[int]]
"""Experts in the slots of each GPU, of one layer."""


@dataclass(frozen=True)
class ExpertsProblem:
    """Layers are independent of each other; all have the same experts and GPUs.

    `load_tok` (layers, experts); `slots`, `node` (gpus,): weights that fit, and where the GPU stands;
    `speed` (gpus,): tokens in a unit of time, one for each when None; `group` (experts,): node-limited
    routing; `tokens`: one array (sampled tokens, experts a token) a layer.
    """

    load_tok: Floats
    slots: Ints
    node: Ints
    speed: Floats | None = None
    group: Ints | None = None
    tokens: Sequence[Ints] | None = None

    @property
    def speeds(self) -> Floats:
        return np.ones(len(self.slots)) if self.speed is None else np.asarray(self.speed, float)

    @property
    def nodes(self) -> int:
        return int(self.node.max()) + 1


@dataclass(frozen=True)
class Aim:
    """`balance`: the hottest GPU, ties by traffic. `combined`: J. `traffic`: below `balance_cap`.

    `grouped` keeps every group on one node (only with `balance`).
    """

    objective: Objective = "balance"
    traffic_weight: float = 0.1
    balance_cap: float = 1.02
    grouped: bool = False


@dataclass(frozen=True)
class ExpertsSolution:
    """One entry a layer: `place`, `replicas` (layers, experts), `balance` (hottest / mean), its bound."""

    status: Status
    objective: float
    bound: float
    place: list[Place]
    replicas: Ints
    balance: Floats
    balance_bound: Floats
    nodes_per_token: Floats | None


def table(expert: Ints, slots: Ints) -> Ints:
    """Experts in the slots (slots,), GPU after GPU, as (gpus, most slots); -1 where a GPU has no more."""
    placed = np.full((len(slots), int(slots.max())), -1, dtype=np.int64)
    placed[np.arange(placed.shape[1]) < slots[:, None]] = expert
    return placed


def counts(expert: Ints, unit: Ints, shape: tuple[int, int]) -> Ints:
    """Replicas (experts, units) of each expert on each unit, of experts in slots and the units of these.

    >>> counts(np.array([0, 0, 1]), np.array([0, 1, 1]), (2, 2)).tolist()
    [[1, 1], [0, 1]]
    """
    on = np.zeros(shape, dtype=np.int64)
    np.add.at(on, (expert, unit), 1)
    return on
