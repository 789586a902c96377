"""Whether the band of a closed loop's rate holds 80 %, by the share of its time that goes to prompts: what
`planner.cost.bands.PROMPTS` is read from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from benchmarks.scores.held import Z80, Floats, Held
from benchmarks.scores.render import share, table
from planner.cost.bands import PROMPTS

EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
"""Of the classes of shares."""


def rate_sigma(prompts: Floats, decode: Floats, times: float = PROMPTS) -> Floats:
    """Deviations of log rates (n,): of independent errors of decode steps, off by `decode`, and of seconds of
    prompts, a share `prompts` of the time, `times` as far off.

    >>> rate_sigma(np.array([0.0, 0.5, 1.0]), np.array([0.1, 0.1, 0.1]), 1.5).round(3)
    array([0.1 , 0.09, 0.15])
    """
    return np.asarray(np.hypot(prompts * times * decode, (1 - prompts) * decode))


def rate_table(held: Held, prompts: Floats, edges: Sequence[float] = EDGES) -> str:
    """By share of prompts: rows, groups, deviation of log(measured / predicted) tokens/s, and how many lie in
    bands of rates, if a plan took TPOT's, and if it took TTFT's."""
    errors = np.log(held.measured_rate() / held.rate())
    groups = np.array([f"{row['family']} {row['system']}" for row in held.rows])
    widths = (rate_sigma(prompts, held.sigma_tpot), held.sigma_tpot, held.sigma_ttft)
    lines = []
    for low, high in pairwise(edges):
        at = (low <= prompts) & (prompts < high)
        if at.any():
            inside = [float((np.abs(errors[at]) <= Z80 * width[at]).mean()) for width in widths]
            size = float(np.quantile(np.abs(errors[at]), 0.8)) / Z80
            counts = [str(int(at.sum())), str(len(set(groups[at].tolist())))]
            lines.append([f"{low:.0%} to {high:.0%}", *counts, f"{size:.3f}", *(share(x) for x in inside)])
    return table(["prompts", "n", "groups", "sigma", "inside", "by TPOT's", "by TTFT's"], lines)
