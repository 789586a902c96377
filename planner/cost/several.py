"""Replicas on several node classes: a cost model of each class, and designs that name their stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import ClusterLink, NodeClass
from model_zoo.schema import ModelCard
from planner.cost.attention import Load
from planner.cost.calibration import Calibration
from planner.cost.model import CostModel
from planner.cost.told import AS_USUAL, Told
from planner.designs.shape import Designs, Floats, Ints, Precisions, Staging, like, which


class SeveralClasses(CostModel):
    """`of_class` by id; the engine's own seconds are those of the slowest host, whatever its generation, as
    designs have some of the classes and not all. `links`: what the cluster declares of ways between its
    classes."""

    def __init__(
        self,
        card: ModelCard,
        classes: Sequence[NodeClass],
        links: Sequence[ClusterLink],
        stagings: Sequence[Staging],
        engine: str,
        precisions: Precisions,
        calibration: Calibration | None = None,
        told: Told = AS_USUAL,
    ) -> None:
        by = (engine, precisions, calibration, told)
        self.of_class = {c.id: CostModel(card, c, *by) for c in classes}
        slowest = max(self.of_class.values(), key=lambda m: m.tuning.step_s)
        super().__init__(card, slowest.node_class, *by)
        self.tuning = self.calibration.tuning(replace(self.traits, generation=""))
        self.stagings, self.cluster_links = tuple(stagings), tuple(links)
        for model in (self, *self.of_class.values()):
            model.limit_watts = None  # a step of several kinds of GPU is not timed under limits

    def on(self, node: NodeClass) -> CostModel:
        return self.of_class[node.id]

    @property
    def most_gpus(self) -> int:
        """All stagings stand on the nodes there are."""
        return sum(m.node_class.gpus for m in self.of_class.values())

    def launching(self, load: Load, designs: Designs) -> Floats:
        """That of the slowest host among those of each design."""
        every = np.array([m.launching(load, designs) for m in self.of_class.values()])
        return np.asarray(np.where(self._hosts[:, which(designs)], every, 0.0).max(axis=0))

    @cached_property
    def _hosts(self) -> NDArray[np.bool_]:
        """Whether each class has a stage of each staging, (classes, m)."""
        own = [{stage.node_class for stage in staging} for staging in self.stagings]
        return np.array([[g in names for names in own] for g in self.of_class])

    def by_class(self, designs: Designs) -> list[tuple[NodeClass, Ints]]:
        """GPUs of each class that each design takes."""
        own = [self.stagings[i] for i in which(designs)]
        found = []
        for g, m in self.of_class.items():
            gpus = [sum(stage.tp for stage in staging if stage.node_class == g) for staging in own]
            found.append((m.node_class, np.array(gpus, dtype=np.int64)))
        return found

    def sigmas(self, designs: Designs) -> Floats:
        """Deviations of the log of measured over predicted TTFT and TPOT, (2, n): those of the least known of
        its classes."""
        every = [m.sigmas(like(len(designs), 1)) for m in self.of_class.values()]
        return np.asarray(np.max(every, axis=0))
