"""What of a model rests where, of replicas with weights in host memory: layers and experts by place, and
their bytes in host memory and on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model_zoo.schema import Layer, MoeFfn
from planner.cost.host import Host, HostStage
from planner.cost.model import CostModel
from planner.cost.weights import layer_bytes
from planner.designs.shape import Floats, Ints, like

HostStaging = tuple[HostStage, ...]

CACHE_SHARE = 0.1
"""Share of host memory that is kept for the KV cache of layers there, where weights would take all of it."""


@dataclass(frozen=True)
class Held:
    """Bytes of weights of the model's kinds of layers, (kinds,): all of a layer; its routed experts; one."""

    layer: Floats
    experts: Floats
    expert: Floats


def held_bytes(model: CostModel, tp: int = 1) -> Held:
    """Bytes of the weights of each kind of layer on one of `tp` GPUs; of experts all, at tp 1."""
    one = like(1, tp)
    layer = np.array([layer_bytes(k, model.card.hidden, one, model.layers.precision)[0] for k in model.kinds])
    expert = np.array([_expert_bytes(model, kind) for kind in model.kinds])
    many = np.array([k.ffn.experts if isinstance(k.ffn, MoeFfn) else 0 for k in model.kinds])
    return Held(layer, expert * many, expert)


def _expert_bytes(model: CostModel, kind: Layer) -> float:
    if not isinstance(kind.ffn, MoeFfn):
        return 0.0
    width = kind.ffn.latent or model.card.hidden
    return kind.ffn.matrices * width * kind.ffn.inner * model.layers.expert_weights(kind)[1]


@dataclass(frozen=True)
class Places:
    """Where layers and experts lie in every staging: layer ranges of its stages and last of the hosts of its
    nodes (m, stages + nodes, 2); in the first node layers by kind that are whole on a GPU (m, kinds); whose
    experts are away, by stage (m, stages, kinds); that lie on the host whole (m, kinds)."""

    bounds: Ints
    here: Floats
    away: Floats
    before: Floats


def places(model: CostModel, stagings: Sequence[HostStaging]) -> Places:
    """Where the layers and experts of every staging lie, counted layer by layer."""
    kinds, seen = len(model.kinds), np.asarray(model.card.kinds[1])
    moe = [isinstance(kind.ffn, MoeFfn) for kind in model.kinds]
    deepest = max((len(staging) for staging in stagings), default=1)
    nodes = 1 + max((stage.node for staging in stagings for stage in staging), default=0)
    bounds = np.zeros((len(stagings), deepest + nodes, 2), dtype=np.int64)
    here = np.zeros((len(stagings), kinds))
    away = np.zeros((len(stagings), deepest, kinds))
    before = np.zeros_like(here)
    for i, staging in enumerate(stagings):
        bounds[i, : len(staging)] = [stage.layers for stage in staging]
        first = staging[0].layers[0]
        bounds[i, deepest] = 0, first
        before[i] = np.bincount(seen[:first], minlength=kinds)
        for s, stage in enumerate(staging):
            there = seen[slice(*stage.layers)]
            own = [k for k in there if moe[k]]
            away[i, s] = np.bincount(np.array(own[: stage.away], dtype=np.int64), minlength=kinds)
            if stage.node == 0:
                here[i] += np.bincount(there, minlength=kinds)
            if stage.after:
                bounds[i, deepest + stage.node] = stage.layers[1], stage.layers[1] + stage.after
        here[i] -= away[i].sum(axis=0)
    return Places(bounds, here, away, before)


def in_tiers(
    experts: Floats, dense: Floats, hosts: Sequence[Host], cache_too: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """What lies in which tier of every staging (m,): share of the experts on the host that its memory holds
    (of a dense model 0 or 1), bytes of weights in host memory, and beyond it. `experts`, `dense`: bytes that
    leave the GPUs; `cache_too`: whether cache of layers lies there."""
    room = np.array([host.room_bytes for host in hosts])
    room = np.where(cache_too, 1 - CACHE_SHARE, 1.0) * room
    total = experts + dense
    disk = np.array([host.nvme_bytes for host in hosts])
    room = np.where(disk > 0, room, total)
    left = np.maximum(room - dense, 0.0)
    cached = np.where(experts > 0, left / np.maximum(experts, 1.0), room >= dense)
    cached = np.where(dense > room, 0.0, np.minimum(cached, 1.0))
    return cached, np.minimum(total, room), np.maximum(total - room, 0.0)
