"""Which phase a fleet's rate hangs on, and so how far off the rate may be.

A loop with as many requests in flight as the plan has serves at the speed of its seconds of work, so its log
rate is as far off as their logarithm. Errors of seconds of prompts and of decode steps are independent
(docs/calibration.md, "Bands and risk"); with σ_p and σ_d their deviations:

    mixed          s the share of its time that goes to prompts     σ = hypot(s σ_p, (1 - s) σ_d)
    prefill        σ = σ_p             decode     σ = σ_d, held by KV room, too: as many sequences, same steps
    side by side   errors count as one, so edges of bands add up: never too narrow
    pairs          what passes is the least of what prefill and decode let through. h_p, h_d: factors by which
                   the load of either may grow until its tightest limit is met, over the smaller of the two
                   (the phase that binds has h = 1). Then

                   P(rate > x · predicted) = F((ln h_p - ln x) / σ_p) · F((ln h_d - ln x) / σ_d)          (1)

                   with F the law of errors (`planner/cost/student.py`), and the central 80 % lie between
                   the x at which (1) is 0.9 and 0.1. A phase with room to spare drops out; of two that bind
                   alike, either may disappoint, so the band reaches lower.

A prefill server's limits are its time, its cache and the way's TTFT; a decode server's TPOT, cache and
time. How much the load may grow is asked of the model that says how the group runs (`operation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

import numpy as np

from planner.cost.student import chance_below
from planner.plans.bands import Edges
from planner.plans.found import Group, Path, operate_anew
from planner.plans.operation import index_of
from planner.queueing import prefill_s

MOST, GROWN = 4.0, 7
"""Growth beyond which a phase never binds, and halvings until it is known to one per cent."""

HALVINGS = 50
"""Until an edge is known to the last digit that matters."""

FAR = 10.0
"""Deviations beyond which nothing lies."""


def rate_edges(made: Sequence[Group], ways: Sequence[Path]) -> Edges:
    """Edges of the requests/s of a whole fleet with as many requests in flight as it has now."""
    all_rate = sum(way.rate for way in ways)
    parts: list[tuple[float, Edges]] = []
    for g in made:
        alone = sum(way.rate for way in ways if way.second is None and way.first is g)
        if alone > 0:
            parts.append((alone / all_rate, Edges.of(rate_sigma(g))))
    pairs = [way for way in ways if way.second is not None]
    if pairs:
        parts.append((sum(way.rate for way in pairs) / all_rate, _pair_edges(pairs)))
    return Edges(sum(w * e.low for w, e in parts), sum(w * e.high for w, e in parts))


def rate_sigma(g: Group) -> float:
    """Deviation of the log of what a group serves, by the phases it has."""
    prompts, decodes = phase_sigmas(g)
    share = prompt_share(g)
    return float(np.hypot(share * prompts, (1 - share) * decodes))


def phase_sigmas(g: Group) -> tuple[float, float]:
    """Deviations of the log of seconds of prompts and of decode steps."""
    s = g.setup
    design = s.designs.take(np.array([index_of(s, g.candidate)]))
    return float(s.model.sigma_prompts(design)[0]), float(s.model.sigmas(design)[1, 0])


def prompt_share(g: Group) -> float:
    """Share of the time that a group works that goes to prompts: random arrivals leave it idle, too."""
    s, step = g.setup, g.candidate.step
    if g.operation.does == "prefill":
        return 1.0
    if g.candidate.role == "decode":
        return 0.0
    assert step is not None
    prompts = float(g.operation.rate @ prefill_s(step, s.mix.new[None, :], s.mix.isl[None, :])[0])
    return min(prompts / (g.operation.busy if s.promise.loop == "open" else 1.0), 1.0)


def _pair_edges(pairs: Sequence[Path]) -> Edges:
    """Edges of what passes prefill and decode, by (1)."""
    room = _pooled([(way.first, way.rate) for way in pairs], pairs, phase=0)
    other = _pooled([(way.decoder, way.rate) for way in pairs], pairs, phase=1)
    least = min(room[0], other[0])
    phases = [(log(h / least), sigma) for h, sigma in (room, other)]
    return Edges(min(exp(_beyond(phases, 0.9)), 1.0), max(exp(_beyond(phases, 0.1)), 1.0))


def _pooled(members: Sequence[tuple[Group, float]], ways: Sequence[Path], phase: int) -> tuple[float, float]:
    """Growth and deviation of groups side by side, of (group, requests/s) each: means over requests."""
    groups = {g.id: g for g, _ in members}
    own = {name: (growth(g, ways), phase_sigmas(g)[phase]) for name, g in groups.items()}
    rate = sum(r for _, r in members)
    h, sigma = (sum(r * own[g.id][i] for g, r in members) / rate for i in (0, 1))
    return h, sigma


def _beyond(phases: Sequence[tuple[float, float]], chance: float) -> float:
    """ln x that the least of some rates is beyond with a `chance`; of each phase log of its median and
    deviation.

    >>> round(_beyond([(0.0, 0.1), (5.0, 0.1)], 0.9), 4)  # one binds: its own -1.2816 deviations
    -0.1282
    >>> round(_beyond([(0.0, 0.1), (0.0, 0.1)], 0.9), 4)  # each must hold with a chance of 0.9 ** 0.5
    -0.1763
    """
    widest = max(sigma for _, sigma in phases)
    middle = min(median for median, _ in phases)
    if widest == 0:
        return middle
    low, high = middle - FAR * widest, middle + FAR * widest
    for _ in range(HALVINGS):
        x = (low + high) / 2
        kept = [chance_below((m - x) / max(sigma, 1e-3 * widest)) for m, sigma in phases]
        low, high = (x, high) if np.prod(kept) > chance else (low, x)
    return (low + high) / 2


def growth(g: Group, ways: Sequence[Path]) -> float:
    """Factor from 1 to `MOST` by which the load of a group may grow until its tightest limit is met: its
    time, its cache, TTFT of the `ways` that begin in it, TPOT of those that decode in it."""
    low, high = 0.0, log(MOST)
    for _ in range(GROWN):
        middle = (low + high) / 2
        low, high = (middle, high) if _keeps(g, ways, exp(middle)) else (low, middle)
    return exp(low)


def _keeps(g: Group, ways: Sequence[Path], times: float) -> bool:
    """Whether a group keeps its limits at so many times its load."""
    was, promise = g.operation, g.setup.promise
    with np.errstate(invalid="ignore"):  # times are infinite where the load is more than a server carries
        now = operate_anew(g, times).operation
    if now.utilisation > 1:
        return False
    mine = [(way.ttft_s - was.ttft_s[way.bucket], way.bucket) for way in ways if way.first is g]
    late = max((g.caution[0] * beside + now.cautious_ttft_s[i] for beside, i in mine), default=0.0)
    steps = [way.bucket for way in ways if way.decoder is g and g.setup.mix.osl[way.bucket] > 1]
    slow = max((now.tpot_s[i] for i in steps), default=0.0)
    return bool(late <= promise.ttft_s and slow * g.caution[1] <= promise.tpot_s)
