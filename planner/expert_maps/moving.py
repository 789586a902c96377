"""Rebalancing while serving: which weights GPUs must take that they do not hold, and how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.expert_maps.asking import Ask
from planner.expert_maps.schema import Floats, Moves
from planner.problems.experts import expert_bytes
from solvers.experts import moves as experts_moves
from solvers.experts.moves import MovesProblem, copied
from solvers.experts.types import Place


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
