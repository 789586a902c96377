"""How far a prediction may be off: the standard deviation of log(measured / predicted), and its 80 % band."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from model_zoo.schema import Attention, Mla, ModelCard
from planner.cost.efficiency.reading import Efficiency, Fit
from planner.designs.shape import Floats, Precisions

Phase = Literal["decode", "prefill"]

BORROWED = {"device": 0.0, "runs": 0.15, "generation": 0.15, "datasheet": 0.35}
"""Added where a kernel was not measured on the device: efficiencies scatter so much within a generation, and
over all. "runs": whole runs on its generation were fitted, kernels or factors on the datasheet's. With each
of AMD's two generations left out of the fit in turn, bands so wide hold 80 % of its TPOTs."""

WIDE = np.array([[0.25], [0.15]])
"""Added to TTFT and TPOT of attention-dp and of replicas of several scale-up domains, of which few runs or
none were fitted: bands so much wider hold 80 % of first tokens of attention-dp where model and engine were
held out, and of steps of disaggregated decode workers (attention-dp 8 to 32)."""

APART = {"prefill": np.array([[0.35], [0.0]]), "decode": np.array([[0.0], [0.03]])}
"""Added to TTFT and TPOT of servers that only do one of both: prompts wait for the cache to be sent and for a
place to decode, too, and decoding servers take caches in meanwhile. So much wider bands hold 80 % of first
tokens of disaggregated runs, of which none was fitted, and of the steps of theirs and of dstack's."""

PROMPTS = 2.0
"""How much further off seconds of prompts are than those of decode steps, as logarithms. With two independent
errors, the prompts' twice as wide, bands of held-out loops' rates hold 80 to 85 % of runs at shares of
prompts up to seven tenths of the time, and 87 % of the few beyond (docs/calibration.md, "Bands and risk").
TTFT's own band does not say it: near saturation TTFT multiplies errors of seconds, and far from it most of it
is the engine's own time."""

Z80 = 1.2816
"""Normal score of the 90th percentile: the central 80 % reach so many standard deviations either way."""


def band_sigma(
    fitted: float, card: ModelCard, fits: Efficiency, used: Precisions, phase: Phase, runs: bool
) -> float:
    """`fitted`, the spread of held-out runs on measured devices, and what borrowed kernels add; `runs`:
    whether runs on the device's generation were fitted."""
    levels = {fit.level for fit in _kernels(card, fits, used, phase)}
    if runs:
        levels = {"runs" if level == "datasheet" else level for level in levels}
    return float(np.hypot(fitted, max(BORROWED[level] for level in levels)))


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


def of_role(sigmas: Floats, role: str) -> Floats:
    """The deviations of TTFT and TPOT, (2, n), of servers in a role."""
    return np.asarray(np.hypot(sigmas, APART[role])) if role in APART else sigmas


def band(value: Floats, sigma: float | Floats) -> tuple[Floats, Floats]:
    """The central 80 % around a median `value` whose log is off by `sigma`.

    >>> low, high = band(np.array([1.0]), 0.2)
    >>> round(float(low[0]), 3), round(float(high[0]), 3)
    (0.774, 1.292)
    """
    factor = np.exp(Z80 * np.asarray(sigma))
    return np.asarray(value / factor), np.asarray(value * factor)
