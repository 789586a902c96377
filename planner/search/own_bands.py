"""What a kind of replica beyond the second must pay: more than its own band.

A fleet of three kinds and one of two are off alike by what their kinds share; only what the third has of its
own may turn the choice. It serves a part of the requests, and their rate may be off by its band, less what it
shares with another kind of its engine and class: there only layouts differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import exp, sqrt

from planner.cost.bands import PROMPTS, Z80
from planner.plans.binding import phase_sigmas, rate_sigma
from planner.plans.found import Found, Group, groups

FEW = 2
"""Kinds that need pay no more than `--simple` says."""

INSIDE = 0.0625
"""Deviation of log TPOT inside groups of one model, device, engine and lengths, models left out with their
engine (`python -m benchmarks.choice picks_folds`): by so much layouts differ beside what they share."""


def own_band(found: Found, few: int) -> float:
    """How far the objective may be off in four cases of five, as a share, by what the kinds beyond the `few`
    that serve most have of their own."""
    made = groups(found)
    requests = sum(sum(g.served.values()) for g in made if g.candidate.role != "prefill")
    served: dict[str, float] = defaultdict(float)
    for g in made:
        served[g.candidate.kind] += sum(g.served.values()) / requests
    beyond = sorted(served, key=lambda kind: -served[kind])[few:]
    return sum(served[kind] * (exp(Z80 * _widest(kind, made)) - 1) for kind in beyond)


def _widest(kind: str, made: Sequence[Group]) -> float:
    return max(own_sigma(g, made) for g in made if g.candidate.kind == kind)


def own_sigma(g: Group, made: Iterable[Group]) -> float:
    """Deviation of the log of what a group serves that no group of another kind shares."""
    whole, (prompts, decodes) = rate_sigma(g), phase_sigmas(g)
    own = g.candidate
    alike = [x.candidate for x in made if x.candidate.kind != own.kind]
    if not any((c.engine, c.node_class) == (own.engine, own.node_class) for c in alike):
        return whole
    fitted = sqrt(max(prompts**2 - decodes**2, 0.0) / (PROMPTS**2 - 1))
    shared = max(fitted**2 - INSIDE**2, 0.0)
    return sqrt(max(whole**2 - shared, 0.0))
