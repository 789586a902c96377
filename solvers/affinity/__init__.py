"""Affinity: experts of all layers on GPUs, so that tokens change GPU and node as little as possible.

Data       m[l,a,b]  tokens from expert a of layer l to expert b of layer l + 1
           G GPUs, q experts of a layer on each
           d[g,h]    0 on one GPU, the intra-node cost on one node, the inter-node cost between nodes
Choose     place[l,e]  a GPU
q[l,g]     experts e with place[l,e] == g   == q
minimise   sum(l,a,b) m[l,a,b] * d[place[l,a], place[l + 1,b]]

Exact where a layer can be dealt in few ways (`affinity_exact`); elsewhere local search (`affinity_search`)
and a bound: of the whole chain on one node where GPUs hold few experts (`affinity_paths`), else of each
boundary by itself (`affinity_bound`), whose gap is that layers share their placement.

Source     the question and costs: ExFlow, arXiv:2401.08383.
"""

from __future__ import annotations

import time

import numpy as np

from solvers.affinity import bound as affinity_bound
from solvers.affinity import exact as affinity_exact
from solvers.affinity import paths as affinity_paths
from solvers.affinity.search import Search
from solvers.affinity.types import AffinityProblem, AffinitySolution
from solvers.linear import Limits, judge

BEGUN, ROUNDS, RECOMBINED_EVERY, PATIENCE = 4, 60, 5, 25
BOUND_SHARE = 0.3
"""Part of the time that the bound gets."""


def solve(p: AffinityProblem, limits: Limits | None = None) -> AffinitySolution:
    """Place all layers. Raises ValueError where the numbers make no sense."""
    limits = limits or Limits(seconds=30.0)
    _check(p)
    if affinity_exact.solvable(p):
        place = affinity_exact.solve(p)
        cost = p.cost(place)
        return AffinitySolution("optimal", cost, cost, place)
    seconds = limits.seconds if limits.work is None else np.inf
    stop = time.perf_counter() + (1 - BOUND_SHARE) * seconds
    search = Search(p, limits.seed)
    search.begin()
    idle = 0
    for turn in range(1, ROUNDS if limits.work is None else min(ROUNDS, limits.work)):
        if time.perf_counter() > stop or idle > PATIENCE:
            break
        before = search.cost
        if turn < BEGUN:
            search.begin()
        elif turn % RECOMBINED_EVERY == 0:
            search.recombine()
        else:
            search.disturb()
        idle = 0 if search.cost < before else idle + 1
    seconds *= BOUND_SHARE
    part = affinity_paths if affinity_paths.possible(p) else affinity_bound
    bound = _whole(p, part.bound(p, seconds))
    cost = search.cost
    return AffinitySolution(
        judge(cost, min(bound, cost), limits, "time_limit"), cost, min(bound, cost), search.best
    )


def _whole(p: AffinityProblem, bound: float) -> float:
    """Costs are whole numbers where tokens and ways are."""
    whole = float(p.intra_cost).is_integer() and float(p.inter_cost).is_integer()
    return float(np.ceil(bound - 1e-6)) if whole and not (p.tokens % 1).any() else bound


def _check(p: AffinityProblem) -> None:
    if p.tokens.ndim != 3 or 0 in p.tokens.shape or p.tokens.shape[1] != p.tokens.shape[2]:
        raise ValueError("transitions: want one square table of experts for each two layers in a row")
    for at, tokens in enumerate(p.tokens):
        if not np.isfinite(tokens).all() or (tokens < 0).any():
            raise ValueError(f"layer {at}: a count of tokens is negative or no number")
    if min(p.gpus, p.gpus_per_node) < 1 or p.gpus % p.gpus_per_node:
        raise ValueError(f"{p.gpus} GPUs do not divide into nodes of {p.gpus_per_node}")
    if p.experts % p.gpus:
        raise ValueError(f"{p.experts} experts do not divide among {p.gpus} GPUs")
    if not 0 <= p.intra_cost <= p.inter_cost:
        raise ValueError("costs: want 0 <= within a node <= between nodes")
