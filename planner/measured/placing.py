"""Nodes for replicas of any size: exact, as the fleet counted them.

`plans/placement.py` places sizes that divide one another; a table may name 3 GPUs beside 2. Then the fewest
nodes are a small cutting-stock program over the patterns of `solvers/packing.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, repeat

from cluster_configs.schema import NodeClass
from planner.candidates.candidate import Candidate
from planner.plans import placement
from planner.plans.placement import Placed
from solvers.linear import Limits, Linear, total
from solvers.packing import divisible, patterns


def place(
    classes: Sequence[NodeClass], counts: Mapping[str, int], candidates: Mapping[str, Candidate]
) -> Placed:
    """Nodes for `counts` replicas of each candidate, as few as hold them."""
    stages: dict[str, Sequence[Sequence[int]]] = {}
    used: dict[str, int] = {}
    for node in classes:
        mine = {c: k for c, k in counts.items() if candidates[c].node_class == node.id}
        waiting: dict[int, list[str]] = {}
        for c, count in mine.items():
            if candidates[c].gpus <= node.gpus_per_node:
                waiting.setdefault(candidates[c].gpus, []).extend(repeat(c, count))
        odd = not divisible(sorted(waiting))
        contents = {node.id: _contents(node, waiting)} if odd else None
        one = placement.place([node], mine, candidates, contents=contents)
        stages |= one.stages
        used |= one.used
    return Placed(stages, used)


def _contents(node: NodeClass, waiting: Mapping[int, list[str]]) -> list[Counter[str]]:
    """What each node holds of the candidates that are `waiting`, by their GPUs, which are taken off."""
    contents = []
    for filling in fewest({size: len(of) for size, of in waiting.items()}, node.gpus_per_node):
        taken = (waiting[size].pop() for size, most in filling for _ in range(min(most, len(waiting[size]))))
        contents.append(Counter(taken))
    return contents


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
