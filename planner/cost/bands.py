"""How far a prediction may be off: the standard deviation of log(measured / predicted), and its 80 % band."""

from __future__ import annotations

from typing import Literal

import numpy as np

from model_zoo.schema import Mla, ModelCard, MoeFfn
from planner.cost.efficiency.reading import Efficiency
from planner.cost.shape import Floats, Precisions

Phase = Literal["decode", "prefill"]

WHOLE_MODEL = {"decode": 0.17, "prefill": 0.45}
"""What is left when all kernels are known: engine, routing, and for TTFT the queue (spread of benchmarks/accuracy.py)."""
LEVEL = {"device": 1.0, "generation": 1.6, "datasheet": 2.5}
"""How much wider a fit's own error is where it is borrowed."""
MOE = 0.12
"""Added by routing that is not known: which experts are popular."""
TO_SIGMA = 1 / 0.6745
"""Median absolute error -> standard deviation, of a Gaussian."""
Z80 = 1.2816


def band_sigma(fits: Efficiency, used: Precisions, card: ModelCard, phase: Phase) -> float:
    """Errors of the kernels that matter (GEMM, attention, experts), whole-model error and routing, as independent."""
    layers = card.stack
    size = next((m.head_dim for m in (layer.mixer for layer in layers) if hasattr(m, "head_dim")), 128)
    attention = ("mla_" if any(isinstance(layer.mixer, Mla) for layer in layers) else "") + phase
    kernels = [
        fits.fit("gemm", used.gemm),
        fits.fit(attention, used.kv, None if attention.startswith("mla") else size),
    ]
    experts = any(isinstance(layer.ffn, MoeFfn) for layer in layers)
    if experts:
        kernels.append(fits.fit("moe", used.experts))
    own = (
        max(LEVEL[fit.level] * fit.error for fit in kernels) * TO_SIGMA / 2
    )  # errors of many kernels average out
    borrowed = {"device": 0.0, "generation": 0.12, "datasheet": 0.3}[max(kernels, key=_distance).level]
    routing = MOE if experts else 0.0
    return float(np.sqrt(WHOLE_MODEL[phase] ** 2 + own**2 + borrowed**2 + routing**2))


def _distance(fit: object) -> int:
    """0 measured on the device, 1 its generation, 2 datasheet."""
    return ["device", "generation", "datasheet"].index(fit.level)  # type: ignore[attr-defined]


def band(value: Floats, sigma: float | Floats) -> tuple[Floats, Floats]:
    """The central 80 % around a median `value` whose log is off by `sigma`.

    >>> low, high = band(np.array([1.0]), 0.2)
    >>> round(float(low[0]), 3), round(float(high[0]), 3)
    (0.774, 1.292)
    """
    factor = np.exp(Z80 * np.asarray(sigma))
    return np.asarray(value / factor), np.asarray(value * factor)
