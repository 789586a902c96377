"""What the numbers of `block_schedule.py` stand for: columns (a tensor on a tier), rows and resources."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from planner.cost.block import TIERS, Machine

TENSORS = ("weights", "cache", "activations")


ANYWHERE = ("", "")
"""What is the same wherever the tensors rest: the last column."""


CPU = ("weights", "cpu")


Place = tuple[str, str]


Row = dict[Place, float]


@dataclass(frozen=True)
class Axes:
    """Columns, rows and resources of a machine with tiers `beside`; `cpu`: with weights that the CPU computes
    with."""

    beside: tuple[str, ...] = ()
    cpu: bool = False

    @cached_property
    def tiers(self) -> tuple[str, ...]:
        return (*TIERS, *self.beside)

    @cached_property
    def columns(self) -> tuple[Place, ...]:
        own = [(q, t) for q in TENSORS for t in self.tiers if (q, t) != ("activations", "disk")]
        return (*own, *[CPU] * self.cpu)

    @cached_property
    def at(self) -> dict[Place, int]:
        return {place: i for i, place in enumerate([*self.columns, ANYWHERE])}

    @cached_property
    def more(self) -> tuple[str, ...]:
        """Rows, and resources of the same names, beside those of every machine."""
        return (*(f"{name} {way}" for name in self.beside for way in ("read", "write")), *["cpu"] * self.cpu)

    @cached_property
    def rows(self) -> tuple[str, ...]:
        return ("to gpu", "from gpu", "disk read", "disk write", "compute", *self.more)

    @cached_property
    def resources(self) -> tuple[str, ...]:
        return ("gpu compute", "gpu memory", "pcie", "host memory", "disk read", "disk write", *self.more)

    @cached_property
    def busy(self) -> tuple[tuple[str, str], ...]:
        return tuple((phase, what) for phase in ("prefill", "decode") for what in self.rows)

    @cached_property
    def fits(self) -> tuple[tuple[str, str], ...]:
        return tuple((tier, phase) for tier in self.tiers for phase in ("prefill", "decode"))

    def away(self, tensor: str, value: float, but: Collection[str] = ()) -> Row:
        """One figure for every tier but the GPU, and those that `but` names."""
        return {(q, t): value for q, t in self.columns if q == tensor and t not in ("gpu", *but)}


PLAIN = Axes()
"""Axes of a machine with nothing beside GPU, host memory and disk."""


def axes(machine: Machine, cpu: bool = False) -> Axes:
    """The axes of a machine: one for each tier that a tensor may lie in."""
    return Axes(tuple(tier.name for tier in machine.beside), cpu)
