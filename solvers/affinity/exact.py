"""Affinity exactly, where the ways to deal a layer's experts are few: dynamic programming over the layers.

A layout is a layer's experts dealt to GPUs and GPUs to nodes, names of both aside: E!/(q!^G g!^N N!) of
them with q experts a GPU and g GPUs a node. Between layouts of two layers the names that keep most match:

kept[i,j]   tokens between set i and set j of experts, each the experts of one GPU
node[b,c]   (inter - intra) * tokens between blocks b and c + most, their GPUs matched, of intra * kept
whole[s,t]  most, their nodes matched, of node
cost[s,t]   inter * tokens - whole[s,t]

Names of one layer decide those of the next, so cost[s,t] along the chain is all there is: a shortest path.
With one expert a GPU on one node there is one layout, and each boundary is one assignment.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product
from math import comb, factorial

import numpy as np
from scipy.optimize import linear_sum_assignment

from solvers.affinity.types import AffinityProblem, Floats, Ints, shortest

MOST_LAYOUTS, MOST_BLOCKS = 800, 800
MOST_ORDERS = 24
"""Matchings of more GPUs or nodes than have this many orders are solved one pair of layouts at a time."""
MOST_PAIRS = 2000


def layouts(p: AffinityProblem) -> int:
    """How many layouts a layer has."""
    q, g, n = p.per_gpu, p.gpus_per_node, p.nodes
    return int(factorial(p.experts) // (factorial(q) ** p.gpus * factorial(g) ** n * factorial(n)))


def solvable(p: AffinityProblem) -> bool:
    count, size = layouts(p), p.per_gpu * p.gpus_per_node
    blocks = comb(p.experts, size) * factorial(size)
    blocks //= factorial(p.per_gpu) ** p.gpus_per_node * factorial(p.gpus_per_node)
    if count > MOST_LAYOUTS or blocks > MOST_BLOCKS:
        return False
    orders = ((p.gpus_per_node, blocks), (p.nodes, count))
    return all(factorial(k) <= MOST_ORDERS or many**2 <= MOST_PAIRS for k, many in orders)


def solve(p: AffinityProblem) -> Ints:
    """The placement (layers, experts) -> GPU of the least cost."""
    sets, blocks, whole = _sets(p)
    gains = (_gains(p, tokens, sets, blocks, whole)[1] for tokens in p.tokens)
    costs = (p.inter_cost * tokens.sum() - gain for tokens, gain in zip(p.tokens, gains, strict=True))
    _, chain = shortest(np.zeros(len(whole)), costs)
    return _named(p, chain, sets, blocks, whole)


def _sets(p: AffinityProblem) -> tuple[Floats, Ints, Ints]:
    """Sets (sets, experts) of 0 and 1; blocks (blocks, GPUs) of sets; layouts (layouts, nodes) of blocks."""
    sets = list(combinations(range(p.experts), p.per_gpu))
    size = p.per_gpu * p.gpus_per_node
    at = {s: i for i, s in enumerate(sets)}
    blocks: list[tuple[int, ...]] = []
    holds: dict[tuple[int, ...], list[int]] = {}
    for own in combinations(range(p.experts), size):
        for dealt in _dealt(own, p.per_gpu):
            holds.setdefault(own, []).append(len(blocks))
            blocks.append(tuple(at[s] for s in dealt))
    whole = [
        choice
        for dealt in _dealt(tuple(range(p.experts)), size)
        for choice in product(*(holds[own] for own in dealt))
    ]
    member = np.zeros((len(sets), p.experts))
    for i, own in enumerate(sets):
        member[i, list(own)] = 1.0
    return member, np.array(blocks), np.array(whole)


def _dealt(own: tuple[int, ...], size: int) -> Iterator[list[tuple[int, ...]]]:
    """`own` cut into sets of `size`, each way once."""
    if not own:
        yield []
        return
    for others in combinations(own[1:], size - 1) if size > 1 else [()]:
        first = (own[0], *others)
        for rest in _dealt(tuple(e for e in own[1:] if e not in others), size):
            yield [first, *rest]


def _gains(
    p: AffinityProblem, tokens: Floats, sets: Floats, blocks: Ints, whole: Ints
) -> tuple[Floats, Floats]:
    """`node` and `whole` of the docstring."""
    kept = p.intra_cost * (sets @ tokens @ sets.T)
    inside = sets[blocks].sum(1)
    node = (p.inter_cost - p.intra_cost) * (inside @ tokens @ inside.T) + _most(kept, blocks)
    return node, _most(node, whole)


def _most(gain: Floats, parts: Ints) -> Floats:
    """The most that a matching of their parts gains, for each pair of rows of `parts`."""
    count, k = parts.shape
    if factorial(k) > MOST_ORDERS:
        return np.array([[_match(gain[np.ix_(a, b)])[1] for b in parts] for a in parts])
    between = gain[parts[:, None, :, None], parts[None, :, None, :]]
    rows = np.arange(k)
    best = np.full((count, count), -np.inf)
    for order in permutations(range(k)):
        np.maximum(best, between[:, :, rows, list(order)].sum(2), out=best)
    return best


def _match(gain: Floats) -> tuple[Ints, float]:
    """For each row its column, and the sum."""
    rows, columns = linear_sum_assignment(gain, maximize=True)
    return columns, float(gain[rows, columns].sum())


def _named(p: AffinityProblem, chain: list[int], sets: Floats, blocks: Ints, whole: Ints) -> Ints:
    """Layouts with names: each layer's GPUs are those of the layer before that keep most."""
    named = [blocks[whole[chain[0]]]]
    """(nodes, GPUs) -> set, of each layer."""
    held = whole[chain[0]]
    for tokens, s in zip(p.tokens, chain[1:], strict=True):
        node, _ = _gains(p, tokens, sets, blocks, whole)
        order, _ = _match(node[np.ix_(held, whole[s])])
        held = whole[s][order]
        kept = sets @ tokens @ sets.T
        now = [blocks[b][_match(kept[np.ix_(named[-1][n], blocks[b])])[0]] for n, b in enumerate(held)]
        named.append(np.stack(now))
    return np.stack([sets[layer.ravel()].argmax(0) for layer in named])
