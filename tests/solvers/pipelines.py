"""Small pipeline problems drawn at random, and what trying everything gives."""

from collections.abc import Iterator
from itertools import combinations_with_replacement, pairwise, product

import numpy as np

from solvers.pipeline.types import ALONE, FIRST, LAST, MIDDLE, Kind, Nodes, PipelineProblem, Point


def random_problem(r: np.random.Generator, **changes: object) -> PipelineProblem:
    """At most 4 GPUs of at most 3 classes, 2 to 8 layers, numbers that leave some pipelines impossible."""
    groups = [f"g{i}" for i in range(int(r.integers(1, 4)))]
    left, nodes = 4, {}
    for i, g in enumerate(groups):
        most = left - (len(groups) - 1 - i)
        shapes = [(n, k) for n in range(1, most + 1) for k in range(1, most + 1) if n * k <= most]
        count, gpus = shapes[int(r.integers(len(shapes)))]
        left -= count * gpus
        nodes[g] = Nodes(count, gpus, float(r.integers(1, 5)))
    kinds = [Kind(g, t) for g in groups for t in (1, 2, 3, 4) if t <= nodes[g].gpus]
    if len(kinds) > 4:
        kinds = [kinds[i] for i in sorted(r.choice(len(kinds), 4, replace=False))]
    n, roles = len(kinds), 4
    layers = int(r.integers(2, 9))
    points = []
    for stages in range(1, 5):
        for _ in range(2):
            points.append(
                Point(
                    stages,
                    float(r.integers(1, 9)),
                    r.uniform(0.5, 3.0, n),
                    r.uniform(0.0, 1.0, (n, roles)),
                    r.uniform(0.0, 1.0, n),
                    r.uniform(0.0, 1.0, (len(groups), len(groups))),
                    r.uniform(0.5, 2.0, len(groups)),
                )
            )
    free = r.uniform(5.0, 60.0, (n, 1)) + r.uniform(0.0, 5.0, (n, roles))
    return PipelineProblem(
        layers=layers,
        kinds=kinds,
        nodes=nodes,
        points=points,
        free_bytes=free,
        layer_bytes=r.uniform(1.0, 6.0, n),
        cache_bytes=r.uniform(0.1, 1.0, n),
        spread=float(r.choice([0.0, 0.5])),
        steps=float(r.integers(1, 4)),
        most_round_s=float(r.choice([12.0, 30.0, np.inf])),
        **changes,  # type: ignore[arg-type]
    )


def orders(p: PipelineProblem, stages: int) -> Iterator[tuple[int, ...]]:
    """Every row of stages of which those of one class stand together, of classes as many as may mix."""
    for row in product(range(len(p.kinds)), repeat=stages):
        groups = [p.kinds[k].group for k in row]
        visits = [g for i, g in enumerate(groups) if i == 0 or g != groups[i - 1]]
        alike = len({p.kinds[k].gpus for k in row}) == 1
        there = all(
            sum(k.gpus for k in map(p.kinds.__getitem__, row) if k.group == g) <= node.count * node.gpus
            for g, node in p.nodes.items()
        )
        if there and len(visits) == len(set(visits)) <= p.most_groups and (alike or not p.alike):
            yield row


def splits(layers: int, stages: int) -> Iterator[tuple[int, ...]]:
    """Every way to give each stage a layer or more."""
    if stages == 1:
        yield (layers,)
        return
    for first in range(1, layers - stages + 2):
        for rest in splits(layers - first, stages - 1):
            yield (first, *rest)


def rate_of(p: PipelineProblem, point: Point, row: tuple[int, ...], layers: tuple[int, ...]) -> float:
    """Requests/s of stages `row` with `layers` at `point`, 0 where they do not fit: the docstring, in
    loops."""
    roles = [FIRST, *[MIDDLE] * (len(row) - 2), LAST] if len(row) > 1 else [ALONE]
    held = point.sequences + p.spread * point.sequences**0.5
    taus = []
    for k, n, role in zip(row, layers, roles, strict=True):
        if n * (p.layer_bytes[k] + p.cache_bytes[k] * held) > p.free_bytes[k, role]:
            return 0.0
        taus.append(point.extra_s[k, role] + n * point.layer_s[k])
    if p.even and max(layers) - min(layers) > 1:
        return 0.0
    names = list(p.nodes)
    needed = packed(p, [tuple(row.count(k) for k in range(len(p.kinds)))])
    assert needed is not None
    crossed = [
        max(needed[g] - 1, 0) for g in names
    ]  # boundaries of nodes, anywhere among the class's own hops
    hops = 0.0
    for a, b in pairwise(row):
        g, h = names.index(p.kinds[a].group), names.index(p.kinds[b].group)
        hops += point.far_s[g] if g == h and crossed[g] else point.hop_s[g, h]
        crossed[g] -= g == h and crossed[g] > 0
    whole = len(row) * max(taus) + hops + max(point.round_s[k] for k in row)
    return point.sequences / (p.steps * whole) if whole <= p.most_round_s else 0.0


def best_rates(p: PipelineProblem) -> dict[tuple[int, ...], float]:
    """The best rate of every multiset of stages."""
    best: dict[tuple[int, ...], float] = {}
    for stages in p.depths:
        for row in orders(p, stages):
            use = tuple(row.count(k) for k in range(len(p.kinds)))
            for point in (a for a in p.points if a.stages == stages):
                for layers in splits(p.layers, stages):
                    best[use] = max(best.get(use, 0.0), rate_of(p, point, row, layers))
    return {use: rate for use, rate in best.items() if rate > 0}


def packed(p: PipelineProblem, uses: list[tuple[int, ...]]) -> dict[str, int] | None:
    """The fewest nodes of each class that hold all stages of `uses`, None where there are too few."""
    needed = {}
    for g, node in p.nodes.items():
        items = sorted(
            (
                k.gpus
                for use in uses
                for k, n in zip(p.kinds, use, strict=True)
                if k.group == g
                for _ in range(n)
            ),
            reverse=True,
        )
        needed[g] = next((n for n in range(node.count + 1) if _fits(items, [node.gpus] * n)), -1)
    return None if -1 in needed.values() else needed


def _fits(items: list[int], room: list[int]) -> bool:
    if not items:
        return True
    return any(
        room[i] >= items[0] and _fits(items[1:], [*room[:i], room[i] - items[0], *room[i + 1 :]])
        for i in range(len(room))
    )


def best_by_trying_all(p: PipelineProblem) -> float | None:
    """The best objective of every set of pipelines."""
    rates = best_rates(p)
    gpus = sum(n.count * n.gpus for n in p.nodes.values())
    found: float | None = 0.0 if p.objective == "throughput" or not p.demand else None
    for many in range(1, gpus + 1):
        for uses in combinations_with_replacement(rates, many):
            if sum(n * k.gpus for use in uses for n, k in zip(use, p.kinds, strict=True)) > gpus:
                continue
            nodes, rate = packed(p, list(uses)), sum(rates[use] for use in uses)
            if nodes is None:
                continue
            if p.objective == "throughput":
                found = max(found or 0.0, rate)
            elif rate >= (p.demand or 0.0) * (1 - 1e-9):
                cost = sum(n * p.nodes[g].price for g, n in nodes.items())
                found = cost if found is None else min(found, cost)
    return found
