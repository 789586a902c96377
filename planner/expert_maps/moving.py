"""What a map is worth. Rebalancing while serving: which weights GPUs must take that they do not hold, and how
long that takes. Affinity: experts that tokens use one after the other, on one GPU or at least on one node.
Drift: the map later on; steps are made at most `WINDOWS` sums of steps in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.expert_maps.asking import Ask
from planner.expert_maps.schema import Drift, Floats, Hops, Moves
from planner.problems.experts import expert_bytes, linear, time_over_mean
from solvers import affinity, experts
from solvers.affinity.types import AffinityProblem
from solvers.experts import moves as experts_moves
from solvers.experts import robust as experts_robust
from solvers.experts.moves import MovesProblem, copied
from solvers.experts.types import Aim, ExpertsProblem, Place
from solvers.linear import Status


def moves(asked: Ask, best: Sequence[Place]) -> tuple[list[Place], Moves, Floats]:
    """The map near the balance of `best` with the fewest copies, the copies, and its balance (layers,)."""
    assert asked.previous is not None
    gpus = asked.gpus
    p = MovesProblem(asked.loads.total, gpus.slots, gpus.speed, asked.previous, best, asked.keep_within)
    found = experts_moves.solve(p, replace(asked.limits, seconds=asked.limits.seconds / 2))
    near, far = _taken(asked, found.place)
    taken = (near + far).sum(0)
    weight = _weight(asked)
    size = None if weight is None else weight @ (near + far)
    pause, links = (None, None) if weight is None else _pause(asked, weight @ near, weight @ far)
    told = Moves(
        copies=int(found.objective),
        bound=int(found.bound),
        fresh=sum(copied(new, old) for new, old in zip(best, asked.previous, strict=True)),
        within=asked.keep_within,
        worst_gpu=int(taken.max()),
        bytes=None if size is None else float(size.sum()),
        worst_gpu_bytes=None if size is None else float(size.max()),
        pause_s=pause,
        links=links,
    )
    return found.place, told, found.balance


def _taken(asked: Ask, places: Sequence[Place]) -> tuple[Floats, Floats]:
    """Copies (layers, gpus) whose weights are on the GPU's node already, and from another node."""
    assert asked.previous is not None
    node = asked.gpus.node
    near, far = np.zeros((2, len(places), asked.gpus.count))
    for layer, (place, held) in enumerate(zip(places, asked.previous, strict=True)):
        on_node: list[set[int]] = [set() for _ in range(asked.gpus.nodes)]
        for gpu, own in enumerate(held):
            on_node[node[gpu]] |= set(own)
        for gpu, (new, old) in enumerate(zip(place, held, strict=True)):
            for expert in set(new) - set(old):
                (near if expert in on_node[node[gpu]] else far)[layer, gpu] += 1
    return near, far


def _weight(asked: Ask) -> Floats | None:
    """Bytes of an expert (layers,)."""
    if asked.card is None or asked.loads.layers is None:
        return None
    return np.array([expert_bytes(asked.card, layer) for layer in asked.loads.layers])


def _pause(asked: Ask, near: Floats, far: Floats) -> tuple[float | None, str | None]:
    """Seconds until the last GPU has its weights, bytes (gpus,) from its node and from others."""
    gpus = asked.gpus
    if asked.gb_per_s is not None:
        return float(((near + far) / (1e9 * asked.gb_per_s)).max()), f"{asked.gb_per_s:g} GB/s into a GPU"
    if gpus.intra is None or gpus.nic is None:
        return None, None
    links = f"{gpus.intra.min() / 1e9:g} GB/s inside a node"
    if far.any():
        links += f", {gpus.nic.min() / 1e9:g} GB/s between nodes"
    return float((near / gpus.intra + far / gpus.nic).max()), f"{links}, into a GPU"


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
