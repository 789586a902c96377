"""Affinity: experts of all layers on GPUs, so that tokens change GPU and node as little as possible.

Data       m[l,a,b]  tokens from expert a of layer l to expert b of layer l + 1
           G GPUs, q experts of a layer on each
           d[g,h]    0 on one GPU, the intra-node cost on one node, the inter-node cost between nodes
Choose     place[l,e]  a GPU
q[l,g]     experts e with place[l,e] == g   == q
minimise   sum(l,a,b) m[l,a,b] * d[place[l,a], place[l + 1,b]]

Exact where a layer can be dealt in few ways (`affinity_exact`); elsewhere local search (`affinity_search`)
and the bound of each boundary by itself (`affinity_bound`): that layers share their placement is the gap.

Source     the question and costs: ExFlow, arXiv:2401.08383.
"""

from __future__ import annotations

import time

import numpy as np

from solvers import affinity_bound, affinity_exact
from solvers.affinity_search import Search
from solvers.affinity_types import AffinityProblem, AffinitySolution
from solvers.linear import Limits, judge

__all__ = ["AffinityProblem", "AffinitySolution", "solve"]
BEGUN, ROUNDS, RECOMBINED_EVERY = 4, 60, 5
BOUND_SHARE = 0.3
"""Of the time, for the bound."""


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
    for turn in range(1, ROUNDS if limits.work is None else min(ROUNDS, limits.work)):
        if time.perf_counter() > stop:
            break
        if turn < BEGUN:
            search.begin()
        elif turn % RECOMBINED_EVERY == 0:
            search.recombine()
        else:
            search.disturb()
    bound = min(search.cost, affinity_bound.bound(p, BOUND_SHARE * seconds))
    return AffinitySolution(judge(search.cost, bound, limits, "time_limit"), search.cost, bound, search.best)


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
