"""One long prompt over unlike groups of ranks -> the numbers of `solvers/contexts.py`.

A group is tp GPUs of one class with all layers; the prompt comes in chunks, of each of which every group
takes its share. Seconds are the cost model's, as a line through two shares near even ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cluster_configs.schema import NodeClass, ResolvedCluster
from model_zoo.derive import kv_elements_per_token, kv_shards
from model_zoo.schema import KV_BYTES, Attention, Mla
from planner.cost import attention
from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.shape import like
from planner.problems.ways import route
from solvers.contexts import Group, Problem

MOST_GROUPS = 16
"""More pass their keys and values too often."""


@dataclass(frozen=True)
class Divided:
    """A prompt of `tokens` in chunks of `chunk` over groups of `tp[class]` GPUs."""

    models: Mapping[str, CostModel]  # by class
    tp: Mapping[str, int]
    tokens: int
    chunk: int


def state(cluster: ResolvedCluster, d: Divided) -> Problem | None:
    """The shares' problem; None where a class has no room for the weights, groups are too many or
    not joined."""
    nodes = [n for n in cluster.classes if n.id in d.models]
    ring = [(n, i) for n in nodes for i in range(n.gpus // d.tp[n.id])]
    if not 2 <= len(ring) <= MOST_GROUPS:
        return None
    alike = {n.id: _group(d, n, len(ring)) for n in nodes}
    made: list[Group] = []
    for here, (node, i) in enumerate(ring):
        rate, group = _bytes_per_s(cluster, d, ring, here), alike[node.id]
        if group is None or rate is None:
            return None
        made.append(replace(group, name=name(node, i), pass_s=group.pass_s / rate))
    return Problem(float(d.tokens), tuple(made))


def name(node: NodeClass, i: int) -> str:
    """The name of the i-th group of a class."""
    return f"{node.id}-{i}"


def _group(d: Divided, node: NodeClass, groups: int) -> Group | None:
    """The numbers of each group of a class, to pass at a byte a second."""
    m, tp = d.models[node.id], d.tp[node.id]
    one, share = like(1, tp), d.chunk / groups
    room = float(m.memory(one, int(2 * share), d.tokens / groups).kv_bytes[0])
    if room <= 0:
        return None
    low, high = share / 2, share * 1.5
    s = [float(m.step_s(one, Load.of(0.0, 0.0, tokens, d.tokens / 2))[0]) for tokens in (low, high)]
    each = (s[1] - s[0]) / (high - low)
    chunks = d.tokens / d.chunk
    part = np.array([d.tokens / groups])
    held = float(m.cache_bytes(one, part, np.zeros(1, dtype=np.int64))[0, 0] / part[0])
    fixed = chunks * max(s[0] - each * low, 0.0)
    return Group(node.id, fixed, each, passed_bytes(m, tp, d), held, room)


def passed_bytes(m: CostModel, tp: int, d: Divided) -> float:
    """Keys and values of a rank that a prompt's chunks make pass it: each chunk all tokens so far, in windows
    no more than these."""
    ends = np.arange(1, int(np.ceil(d.tokens / d.chunk)) + 1) * float(d.chunk)
    total = 0.0
    for layer in m.card.stack:
        if isinstance(layer.mixer, Attention | Mla):
            entries = attention.entries(layer.mixer, np.minimum(ends, d.tokens)).sum()
            total += float(entries) * kv_elements_per_token(layer.mixer) / min(tp, kv_shards(layer.mixer))
    return total * KV_BYTES[m.precisions.kv]


def _bytes_per_s(
    cluster: ResolvedCluster, d: Divided, ring: Sequence[tuple[NodeClass, int]], here: int
) -> float | None:
    """Rate of one rank of a group to its like in the next; None where nothing joins them."""
    (a, i), (b, j) = ring[here], ring[(here + 1) % len(ring)]
    links = d.models[a.id].links
    reach = max(a.scale_up_gpus, 1) // d.tp[a.id]
    if a is b and reach and i // reach == j // reach:
        return float(links.flat["hop"]["share"]) * links.intra
    way, tp = route(a, b, cluster), d.tp[a.id]
    if way is None:
        return None
    nics = min(a.nic_bytes_per_s, b.nic_bytes_per_s * d.tp[b.id] / tp)
    return float(links.flat["network"]["share"]) * min(nics, way.link.bytes_per_s / tp if way.link else nics)
