"""Nodes for replicas of any size: exact, as the fleet counted them.

`plans/placement.py` places sizes that divide one another; a table may name 3 GPUs beside 2. Then the fewest
nodes are a small cutting-stock program over the patterns of `solvers/packing.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat

from cluster_configs.schema import NodeClass
from planner.candidates.candidate import Candidate
from planner.plans import placement
from planner.plans.placement import Placed
from solvers.linear import Limits, Linear, total
from solvers.packing import divisible, patterns

Held = dict[str, list[set[int]]]
"""Node indices of each stage of each candidate, over all its replicas."""


def place(
    classes: Sequence[NodeClass], counts: Mapping[str, int], candidates: Mapping[str, Candidate]
) -> Placed:
    """Nodes for `counts` replicas of each candidate, as few as hold them."""
    stages: dict[str, Sequence[Sequence[int]]] = {}
    used: dict[str, int] = {}
    for node in classes:
        mine = {c: k for c, k in counts.items() if candidates[c].node_class == node.id}
        sizes = {candidates[c].gpus for c in mine}
        small = sorted(size for size in sizes if size <= node.gpus_per_node)
        if divisible(small):
            one = placement.place([node], mine, candidates)
            stages |= one.stages
            used |= one.used
            continue
        held: Held = {c: [set() for _ in range(candidates[c].design.pp)] for c in mine}
        first = _large(node, mine, candidates, held)
        used[node.id] = first + _small(node, mine, candidates, held, first)
        stages |= {c: [sorted(nodes) for nodes in of] for c, of in held.items()}
    return Placed(stages, used)


def _large(
    node: NodeClass, counts: Mapping[str, int], candidates: Mapping[str, Candidate], held: Held
) -> int:
    """Replicas larger than a node take whole nodes in a row; the nodes taken."""
    at = 0
    for c, count in counts.items():
        span = -(-candidates[c].gpus // node.gpus_per_node)
        for _ in range(count if span > 1 else 0):
            _stand(held[c], range(at, at + span), candidates[c], node.gpus_per_node)
            at += span
    return at


def _stand(stages: list[set[int]], nodes: Sequence[int], c: Candidate, size: int) -> None:
    """Stages fill the replica's nodes in order."""
    for i, stage in enumerate(stages):
        each = c.gpus // c.design.pp
        stage.update(nodes[i * each // size : ((i + 1) * each - 1) // size + 1])


def _small(
    node: NodeClass, counts: Mapping[str, int], candidates: Mapping[str, Candidate], held: Held, first: int
) -> int:
    """The others by patterns, from node `first` on; the nodes taken."""
    waiting: dict[int, list[str]] = {}
    for c, count in counts.items():
        if candidates[c].gpus <= node.gpus_per_node:
            waiting.setdefault(candidates[c].gpus, []).extend(repeat(c, count))
    at = first
    for filling in fewest({size: len(of) for size, of in waiting.items()}, node.gpus_per_node):
        for size in chain.from_iterable(repeat(size, count) for size, count in filling):
            if waiting[size]:
                c = waiting[size].pop()
                _stand(held[c], [at], candidates[c], node.gpus_per_node)
        at += 1
    return at - first


def fewest(items: Mapping[int, int], room: int) -> list[tuple[tuple[int, int], ...]]:
    """The fewest fillings ((size, most of it), ...) of `room` that hold `items` (size -> count).

    Where first-fit decreasing takes three nodes:

    >>> len(fewest({4: 1, 3: 2, 2: 3}, 8))
    2
    """
    m = Linear("placement")
    z = m.integers("z", list(patterns(sorted(items), room)))
    m.minimise(v * 1.0 for v in z.values())
    for size, count in items.items():
        m.add(
            "cover", size, total(v * float(dict(q)[size]) for q, v in z.items() if size in dict(q)) >= count
        )
    outcome = m.solve(Limits())
    return list(chain.from_iterable(repeat(q, k) for q, k in outcome.counts(z).items()))
