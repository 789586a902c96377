"""Watts of replicas, and steps on GPUs that are limited to fewer than they would draw."""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np

from cluster_configs.schema import NodeClass
from planner.cost.attention import Load
from planner.cost.efficiency.reading import Efficiency
from planner.cost.holding import Holding
from planner.cost.power import LEAST_SHARE, busy_watts, mean_watts, slowdown
from planner.designs.shape import Designs, Floats, Ints

ACHIEVED = 0.75
"""Of peak rates that kernels reach, and by which their seconds at peak are fewer than those they take: GEMMs
reach 0.62 to 0.83 of FLOP/s and 0.76 to 0.86 of bandwidth where they are large (docs/calibration.md)."""


class Powered(Holding):
    """What the GPUs of one model, engine and node class draw."""

    fits: Efficiency

    limit_watts: float | None = None
    """What each GPU is told to draw at most, where that is less than its own limit: its arithmetic and its
    reading then take as much longer as `slowdown` says. None: as it comes."""

    def step_s(self, designs: Designs, load: Load) -> Floats:
        """Seconds of a step of a server under `load`, shape (n,).

        Error: docs/calibration.md#how-far-off; the median is about 10-20 % where the device was measured.
        """
        full_s = self._round_s(designs, self._spread(designs, load))
        if self.limit_watts is None:
            return full_s
        arithmetic, memory = self._slowed
        compute_s, memory_s = self.peaks_s(designs, load)
        in_turn = designs.pp / self.concurrent(designs) / ACHIEVED
        return np.asarray(full_s + in_turn * (arithmetic * compute_s + memory * memory_s))

    @property
    def _slowed(self) -> tuple[float, float]:
        """How much longer arithmetic and reading take under the limit, as shares of their time. GPUs would
        draw as they do at peak rates: what the rest of a step waits for is not slowed, and more work never
        takes less time."""
        assert self.limit_watts is not None
        kinds = np.eye(2)
        would = busy_watts(self.fits.power, self._tdp_watts, *kinds)
        arithmetic, memory = (slowdown(self.limit_watts / would, kinds[0]) - 1).tolist()
        return arithmetic, memory

    def limited(self, watts: float) -> Self:
        """The same model on GPUs that are told to draw no more than `watts` each."""
        own = copy(self)
        own.limit_watts = watts
        return own

    def watts(self, designs: Designs, load: Load, utilisation: Floats | float) -> Floats:
        """Watts of a replica that is busy a share `utilisation` of the time with steps under `load`, each GPU
        with its part of a step, shape (n,). Error: 25 %."""
        compute, memory = self.peaks_s(designs, load)
        each_s = self._each_s(designs, self._round_s(designs, self._spread(designs, load)))
        busy, total = np.broadcast_to(utilisation, each_s.shape), np.zeros(len(designs))
        for node, gpus in self.by_class(designs):
            total += gpus * self.on(node).gpu_watts(busy, compute / each_s, memory / each_s)
        return total

    def gpu_watts(self, busy: Floats, compute: Floats, memory: Floats) -> Floats:
        """Watts of one GPU by the shares of its time, its peak FLOP/s and its bandwidth that are used."""
        drawn = busy_watts(self.fits.power, self._tdp_watts, compute, memory)
        if self.limit_watts is not None:
            drawn = np.minimum(drawn, self.limit_watts)
        return mean_watts(drawn, busy, float(self.fits.power.get("limit_watts", self._tdp_watts)))

    def on(self, node: NodeClass) -> Powered:
        """The model of one of the classes that designs take."""
        return self

    def concurrent(self, designs: Designs) -> Ints:
        """Micro-batches that pass the stages of each design at once."""
        return designs.pp

    def by_class(self, designs: Designs) -> list[tuple[NodeClass, Ints]]:
        """GPUs of each class that each design takes."""
        return [(self.node_class, designs.gpus)]

    def peaks_s(self, designs: Designs, load: Load, reached: bool = False) -> tuple[Floats, Floats]:
        """Seconds of the step's FLOPs at peak, or at the best rates that were `reached`, and of its bytes at
        full bandwidth, shape (n,) each."""
        raise NotImplementedError

    def _round_s(self, designs: Designs, load: Load) -> Floats:
        """Seconds of a step at full clocks, (n,)."""
        raise NotImplementedError

    def _spread(self, designs: Designs, load: Load) -> Load:
        """The load of every design, with the tokens that a step verifies."""
        raise NotImplementedError

    def _each_s(self, designs: Designs, full_s: Floats) -> Floats:
        """Seconds that a stage has for its part of a step at full clocks, (n,)."""
        return np.maximum(full_s, 1e-9) * (designs.pp / self.concurrent(designs))

    @property
    def _tdp_watts(self) -> float:
        return self.node_class.device.tdp_watts


def own_limit_watts(node: NodeClass) -> float | None:
    """What each GPU of a class is limited to by its node's power cap, shared out evenly; None where that is
    not less than its own limit, or less than what limits were measured at: then replicas that draw more are
    not offered."""
    each, most = node.gpu_most_watts, node.device.tdp_watts
    return each if LEAST_SHARE * most <= each < most else None
