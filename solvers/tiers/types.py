"""What a tiers problem is made of and what its solution says; maths and units are in `tiers.py`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvers.linear import Floats, Status

Place = tuple[str, str]
"""A tensor and a tier that it may rest on: a column."""


@dataclass(frozen=True, eq=False)
class Line:
    """One way to run, with 1..`most` GPU batches; arrays are [of none, more for each GPU batch, ...].

    seconds  (2, resources, busy, columns + 1)  of each resource in each busy row, for the whole tensor there;
                                                last column: wherever it is
    bytes    (2, fits, columns + 1)
    most     None: as many as the tiers hold
    pieces   [tensor]: what of it is not cut when rounding
    """

    key: Hashable
    tokens: float
    seconds: Floats
    bytes: Floats
    most: int | None = None
    pieces: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TiersProblem:
    """`busy` (phase, what), `fits` (tier, moment), `rate[resource]` in units of which `Line.seconds` is the
    reciprocal."""

    columns: Sequence[Place]
    busy: Sequence[tuple[str, str]]
    times: Mapping[str, float]
    fits: Sequence[tuple[str, str]]
    room: Mapping[str, float]
    rate: Mapping[str, float]
    lines: Sequence[Line]

    def __post_init__(self) -> None:
        if both := set(self.room) & set(self.rate):
            raise ValueError(f"both a tier and a resource: {', '.join(sorted(both))}")

    @cached_property
    def of_tensor(self) -> list[NDArray[np.int64]]:
        """Columns of each tensor."""
        tensors = list(dict.fromkeys(q for q, _ in self.columns))
        return [np.array([i for i, (q, _) in enumerate(self.columns) if q == t]) for t in tensors]

    @cached_property
    def of_phase(self) -> list[NDArray[np.int64]]:
        """Busy rows of each phase."""
        return [np.array([i for i, (p, _) in enumerate(self.busy) if p == phase]) for phase in self.times]

    @cached_property
    def rooms(self) -> Floats:
        """(fits,)"""
        return np.array([self.room[t] for t, _ in self.fits])

    @cached_property
    def counts(self) -> Floats:
        """(phases,)"""
        return np.array(list(self.times.values()))


@dataclass(frozen=True, eq=False)
class Point:
    """A batch point as arrays: seconds (resources, busy, columns + 1), bytes (fits, columns + 1)."""

    line: Line
    batches: int
    tokens: float
    seconds: Floats
    bytes: Floats

    @cached_property
    def work(self) -> Floats:
        """Seconds of all resources together (busy, columns + 1)."""
        total: Floats = self.seconds.sum(axis=0)
        return total


@dataclass(frozen=True, eq=False)
class Duals:
    """Prices in seconds of the block: of busy rows (a second of a layer), of fit rows (a byte)."""

    busy: Floats
    fits: Floats


@dataclass(frozen=True, eq=False)
class TiersSolution:
    """`tokens_per_s` at `point` with `shares` (columns,), no more than `bound` over the whole grid.

    solved: points whose program was solved, of all `points`.
    """

    status: Status
    tokens_per_s: float | None = None
    bound: float | None = None
    point: Point | None = None
    shares: Floats | None = None
    duals: Duals | None = None
    solved: int = 0
    points: int = 0
