"""Drift: what a map is worth later. Steps are made at most `WINDOWS` sums of steps in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.expert_maps.asking import Ask
from planner.expert_maps.schema import Drift, Floats
from planner.problems.experts import linear, time_over_mean
from solvers import experts
from solvers.experts import robust as experts_robust
from solvers.experts.types import Aim, ExpertsProblem, Place

WINDOWS = 8


def windows(tokens: Floats, most: int = WINDOWS) -> Floats:
    """Sums (windows, layers, experts) of equal runs of steps (steps, layers, experts)."""
    return np.stack([part.sum(0) for part in np.array_split(tokens, min(most, len(tokens)))])


def drift(asked: Ask) -> Drift:
    """Maps made on the first half of the steps, in the second half."""
    tokens, gpus = asked.loads.tokens, asked.gpus
    middle = len(tokens) // 2
    first, second = tokens[:middle].sum(0), tokens[middle:].sum(0)

    def means(places: Sequence[Place]) -> tuple[float, float]:
        """Mean balance of the map in both halves."""
        of = [
            np.mean(
                [time_over_mean(w, place, gpus.speed).max() for w, place in zip(half, places, strict=True)]
            )
            for half in (first, second)
        ]
        return float(of[0]), float(of[1])

    def made(load: Floats) -> list[Place]:
        p = ExpertsProblem(load, gpus.slots, gpus.node, gpus.speed, asked.group)
        limits = replace(asked.limits, seconds=asked.limits.seconds / 4)
        return experts.solve(p, Aim(grouped=asked.aim.grouped), limits).place

    rows = [("experts in order", *means([linear(gpus, first.shape[1])] * len(first)))]
    rows.append(("made on the first half", *means(made(first))))
    if asked.robust is not None and middle > 1:
        p = experts_robust.RobustProblem(windows(tokens[:middle]), gpus.slots, gpus.speed, asked.robust)
        limits = replace(asked.limits, seconds=asked.limits.seconds / 2)
        found = experts_robust.solve(p, limits)
        rows.append((f"made on its steps, {asked.robust}", *means(found.place)))
    rows.append(("made on the second half", *means(made(second))))
    return Drift(tuple(rows), rows[1][2] / rows[-1][2] - 1)
