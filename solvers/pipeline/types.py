"""What a pipeline problem is made of, what its solution says; maths and units are in `solvers/pipeline`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Objective = Literal["throughput", "cost"]

MIDDLE, FIRST, LAST, ALONE = range(4)
"""Roles of a stage: columns of `Point.extra_s` and `PipelineProblem.free_bytes`."""


@dataclass(frozen=True)
class Kind:
    """A stage that could stand anywhere in a pipeline: so many GPUs of one node class, side by side."""

    group: str
    gpus: int


@dataclass(frozen=True)
class Nodes:
    """The nodes of one class; `price` of a whole node."""

    count: int
    gpus: int
    price: float = 0.0


@dataclass(frozen=True, eq=False)
class Point:
    """`sequences` in flight in a pipeline of `stages`, so many micro-batches; seconds are of one micro-batch.

    layer_s (kinds,)  extra_s (kinds, roles)  round_s (kinds,)  hop_s (groups, groups)  far_s (groups,)
    """

    stages: int
    sequences: float
    layer_s: Floats
    extra_s: Floats
    round_s: Floats
    hop_s: Floats
    far_s: Floats


@dataclass(frozen=True, eq=False)
class PipelineProblem:
    """Numbers only; shapes (kinds,) and for `free_bytes` (kinds, roles). Groups in the order of `nodes`.

    `even`: layers as equal as they divide. `alike`: stages of one pipeline have the same number of GPUs.
    `most_groups`: classes that one pipeline may mix.
    """

    layers: int
    kinds: Sequence[Kind]
    nodes: Mapping[str, Nodes]
    points: Sequence[Point]
    free_bytes: Floats
    layer_bytes: Floats
    cache_bytes: Floats
    spread: float = 0.0
    steps: float = 1.0
    most_round_s: float = float("inf")
    objective: Objective = "throughput"
    demand: float | None = None
    even: bool = False
    alike: bool = False
    most_groups: int = 3

    def __post_init__(self) -> None:
        """Numbers that would make the answer wrong in silence are mistakes of the caller."""
        if self.objective == "cost" and self.demand is None:
            raise ValueError("objective cost needs a demand")
        if any((point.layer_s <= 0).any() for point in self.points):
            raise ValueError("a layer that takes no time")
        if (self.layer_bytes + self.cache_bytes <= 0).any():
            raise ValueError("a layer that takes no memory")

    @cached_property
    def group_of(self) -> Ints:
        """Group index of each kind, (kinds,)."""
        names = list(self.nodes)
        return np.array([names.index(kind.group) for kind in self.kinds], dtype=np.int64)

    @cached_property
    def gpus_of(self) -> Ints:
        return np.array([kind.gpus for kind in self.kinds], dtype=np.int64)

    @cached_property
    def stock(self) -> Ints:
        """Stages of each kind that all nodes hold."""
        whole = [self.nodes[k.group] for k in self.kinds]
        return np.array([n.count * (n.gpus // k.gpus) for n, k in zip(whole, self.kinds, strict=True)])

    @property
    def depths(self) -> list[int]:
        """Numbers of stages that have points."""
        return sorted({point.stages for point in self.points})

    def held(self, point: Point) -> float:
        """Sequences to keep room for."""
        return float(point.sequences + self.spread * np.sqrt(point.sequences))

    def most_layers(self, point: Point) -> Ints:
        """Layers that memory allows a stage of each kind in each role, (kinds, roles)."""
        each = self.layer_bytes + self.cache_bytes * self.held(point)
        fit = np.floor(np.maximum(self.free_bytes, 0.0) / each[:, None] * (1 + 1e-12))
        return np.asarray(np.minimum(fit, self.layers), dtype=np.int64)

    def limits(self, stages: int) -> tuple[int, int]:
        """Fewest and most layers of one of `stages`."""
        if not self.even:
            return 1, self.layers
        return max(self.layers // stages, 1), -(-self.layers // stages)


@dataclass(frozen=True)
class Pipeline:
    """Stages in order as (kind, layers), the index of the point that it runs at, and requests/s."""

    stages: tuple[tuple[int, int], ...]
    point: int
    rate: float
