"""An expert map, and what was found out on the way to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.experts.types import Place
from solvers.linear import Status

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExpertMap:
    """`place`: experts on each GPU, by layer; `layers`: their numbers in the model, or from 0 on where
    nothing numbered them. `balance`, `bound`: hottest GPU over mean, by layer."""

    model: str | None
    layers: tuple[int, ...]
    experts: int
    nodes: tuple[int, ...]
    """GPUs of each node."""
    place: list[Place]
    balance: tuple[float, ...] = ()
    bound: tuple[float, ...] = ()
    model_layers: int = 0
    """All layers of the model, those without experts included; 0: not known."""

    @property
    def gpus(self) -> int:
        return len(self.place[0])

    @property
    def slots(self) -> tuple[int, ...]:
        return tuple(len(gpu) for gpu in self.place[0])


@dataclass(frozen=True)
class State:
    """A map under the loads: `balance` (layers,), `heat` (layers, gpus) time over mean."""

    what: str
    balance: Floats
    heat: Floats
    nodes_per_token: float | None


@dataclass(frozen=True)
class Moves:
    """Copies to GPUs that lack the expert; `fresh`: what the map of best balance would have copied.

    `bytes`, `worst_gpu_bytes`, `pause_s`: None where the model, or the links, are not known.
    """

    copies: int
    bound: int
    fresh: int
    within: float
    worst_gpu: int
    bytes: float | None
    worst_gpu_bytes: float | None
    pause_s: float | None
    links: str | None


@dataclass(frozen=True)
class Hops:
    """Tokens from layer to layer: cost of their ways, and parts that stay on a GPU, and on a node."""

    before: float
    after: float
    bound: float
    same_gpu: tuple[float, float]
    same_node: tuple[float, float]


@dataclass(frozen=True)
class Drift:
    """A map made on the first half of the steps, in the second: mean balance. `rows`: what, first, second."""

    rows: tuple[tuple[str, float, float], ...]
    loss: float


@dataclass(frozen=True)
class Hot:
    """A replicated expert: its part of the layer's tokens."""

    layer: int
    expert: int
    share: float
    replicas: int


@dataclass(frozen=True)
class Found:
    """The map, before and after it, and the proof: `objective` and `bound` as `goal` says."""

    map: ExpertMap
    goal: str
    objective: float
    bound: float
    gap: float
    status: Status
    seconds: float
    before: State
    after: State
    hottest: tuple[Hot, ...]
    steps: int
    windows: int
    moves: Moves | None = None
    hops: Hops | None = None
    drift: Drift | None = None
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        return {"optimal": 0, "within_gap": 0, "infeasible": 3}.get(self.status, 4)
