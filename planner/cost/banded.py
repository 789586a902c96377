"""How far a model's predictions may be off, by what it was fitted to and which designs it was asked for."""

from __future__ import annotations

import numpy as np

from model_zoo.schema import ModelCard
from planner.cost.bands import PROMPTS, WIDE, Phase, band_sigma
from planner.cost.calibration import Calibration, Traits
from planner.cost.efficiency.reading import Efficiency
from planner.cost.measured import widening
from planner.cost.powered import Powered
from planner.designs.shape import Designs, Floats, Precisions


class Banded(Powered):
    """The bands of what is predicted for one model, engine and node class."""

    card: ModelCard
    calibration: Calibration
    traits: Traits
    fits: Efficiency
    precisions: Precisions

    @property
    def sigma_tpot(self) -> float:
        """Standard deviation of the log of measured / predicted TPOT."""
        return self._sigma("tpot", "decode")

    @property
    def sigma_ttft(self) -> float:
        """Standard deviation of the log of measured / predicted TTFT: queueing adds to the kernels' error."""
        return self._sigma("ttft", "prefill")

    def _sigma(self, kind: str, phase: Phase) -> float:
        """The calibration's; what borrowed kernels add comes on top, where runs on the device don't show
        it."""
        sigma = self.calibration.sigma(kind, self.traits)
        if self.calibration.measured(kind, self.traits):
            return sigma
        runs = self.calibration.fitted_on(self.traits)
        return band_sigma(sigma, self.card, self.fits, self.precisions, phase, runs)

    def sigmas(self, designs: Designs) -> Floats:
        """Standard deviations of the log of measured / predicted TTFT and TPOT by design, shape (2, n)."""
        wide = (designs.groups > 1) | (designs.gpus > self.node_class.scale_up_gpus)
        unseen = wide | (designs.redundant > 0)
        both = np.array([[self.sigma_ttft], [self.sigma_tpot]])
        own = self.calibration.measured("tpot", self.traits) or self.traits.engine in self.calibration.old
        more = widening(self.traits, designs, formats=not own)
        return np.asarray(np.hypot(np.hypot(both, np.where(unseen, WIDE, 0.0)), more))

    def sigma_prompts(self, designs: Designs) -> Floats:
        """Standard deviation of the log of measured / predicted seconds of prompts, which prefill's rate
        hangs on, shape (n,): the fitted part of TPOT's, `PROMPTS` times, and what the design adds to it."""
        fitted = self.calibration.sigma("tpot", self.traits)
        return np.asarray(np.hypot(self.sigmas(designs)[1], fitted * np.sqrt(PROMPTS**2 - 1)))
