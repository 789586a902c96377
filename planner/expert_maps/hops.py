"""Affinity: experts that tokens use one after the other, on one GPU or at least on one node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.expert_maps.asking import Ask
from planner.expert_maps.schema import Hops
from solvers import affinity
from solvers.affinity.types import AffinityProblem
from solvers.experts.types import Place
from solvers.linear import Status

Ints = NDArray[np.int64]


def near(asked: Ask) -> tuple[list[Place], Hops, Status]:
    """Places, and what of the tokens' ways is saved against experts in order."""
    assert asked.transitions is not None
    gpus = asked.gpus
    p = AffinityProblem(asked.transitions, gpus.count, gpus.count // gpus.nodes)
    found = affinity.solve(p, asked.limits)
    in_order = np.tile(np.arange(p.experts) // p.per_gpu, (p.layers, 1))
    place = [[np.flatnonzero(row == g).tolist() for g in range(gpus.count)] for row in found.place]
    before, after = _stay(p, in_order), _stay(p, found.place)
    hops = Hops(
        before=p.cost(in_order),
        after=found.objective,
        bound=found.bound,
        same_gpu=(before[0], after[0]),
        same_node=(before[1], after[1]),
    )
    return place, hops, found.status


def _stay(p: AffinityProblem, place: Ints) -> tuple[float, float]:
    """Parts of the ways that stay on a GPU, and on a node."""
    gpu = node = 0.0
    for a, b, tokens in zip(place[:-1], place[1:], p.tokens, strict=True):
        gpu += float(tokens[a[:, None] == b].sum())
        node += float(tokens[(a // p.gpus_per_node)[:, None] == b // p.gpus_per_node].sum())
    every = max(float(p.tokens.sum()), 1e-300)
    return gpu / every, node / every
