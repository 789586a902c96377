"""How far a prediction may be off: the standard deviation of log(measured / predicted), and its 80 % band."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from model_zoo.schema import Attention, Mla, ModelCard
from planner.cost.efficiency.reading import Efficiency, Fit
from planner.designs.shape import Floats, Precisions

Phase = Literal["decode", "prefill"]

BORROWED = {"device": 0.0, "runs": 0.2, "generation": 0.15, "datasheet": 0.35}
"""Added where a kernel was not measured on the device: efficiencies scatter so much between models where they
come from whole runs, within a generation, and over all."""

WIDE = 0.18
"""Added for attention-dp and for replicas of several scale-up domains: no aggregated run shows them. Decode
workers of disaggregated runs (attention-dp 8 to 32) scatter so much more than runs that were held out."""

PROMPTS = 1.5
"""How much further off seconds of prompts are than those of decode steps, as logarithms. With two independent
errors, the prompts' 1.5 times as wide, bands of held-out loops' rates hold 75 to 83 % of runs at shares of
prompts up to seven tenths of the time, and 89 % of the few beyond (docs/calibration.md, "Bands and risk").
TTFT's own band does not say it: near saturation TTFT multiplies errors of seconds, and far from it most of it
is the engine's own time."""

Z80 = 1.2816
"""Normal score of the 90th percentile: the central 80 % reach so many standard deviations either way."""


def band_sigma(fitted: float, card: ModelCard, fits: Efficiency, used: Precisions, phase: Phase) -> float:
    """`fitted`, the spread of held-out runs on measured devices, and what borrowed kernels add."""
    borrowed = max(BORROWED[fit.level] for fit in _kernels(card, fits, used, phase))
    return float(np.hypot(fitted, borrowed))


def _kernels(card: ModelCard, fits: Efficiency, used: Precisions, phase: Phase) -> Iterator[Fit]:
    """The fits that weigh most: GEMMs, attention of its first kind, routed experts."""
    yield fits.fit("gemm", used.gemm)
    for layer in card.stack:
        if isinstance(layer.mixer, Attention | Mla):
            latent = isinstance(layer.mixer, Mla)
            size = None if isinstance(layer.mixer, Mla) else layer.mixer.head_dim
            yield fits.fit(f"mla_{phase}" if latent else phase, used.kv, size)
            break
    if card.moe:
        yield fits.fit("moe", used.experts)


def band(value: Floats, sigma: float | Floats) -> tuple[Floats, Floats]:
    """The central 80 % around a median `value` whose log is off by `sigma`.

    >>> low, high = band(np.array([1.0]), 0.2)
    >>> round(float(low[0]), 3), round(float(high[0]), 3)
    (0.774, 1.292)
    """
    factor = np.exp(Z80 * np.asarray(sigma))
    return np.asarray(value / factor), np.asarray(value * factor)
