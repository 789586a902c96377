"""Feeds of racks and zones as numbers, and the limits at which GPUs on them are offered.

A feed holds what its GPUs *may* draw: of those in a replica the limit that they are told, or their own; of
the others what they draw at rest. So no prediction of watts has to be right for a breaker to hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor

from cluster_configs.schema import NodeClass, ResolvedCluster
from planner.candidates.candidate import Candidate
from planner.cost.power import LEAST_SHARE, idle_watts
from planner.errors import InputError

SHARES = (0.8, 0.65, LEAST_SHARE)
"""Of a GPU's own limit, those that it may be told; beside them the one at which all GPUs of a feed run
alike."""

ROUNDING = 1e-6
"""Watts by which a share of a whole number may miss one."""


def most_watts(node: NodeClass, told: float = 0.0) -> float:
    """What a GPU of a class may draw: what it is `told` (0: nothing), its part of the node's cap, its own
    limit."""
    return min(node.gpu_most_watts, told) if told else node.gpu_most_watts


def limits_of(cluster: ResolvedCluster) -> dict[str, tuple[float, ...]]:
    """Watts that each GPU of a class may be told to draw at most, highest first, where its feed cannot hold
    all of its GPUs as they come: whole watts, as drivers take them."""
    nodes, found = {n.id: n for n in cluster.classes}, dict[str, set[float]]()
    for feed in cluster.feeds:
        whole = sum(nodes[g].gpus * most_watts(nodes[g]) for g in feed.classes)
        for g in feed.classes if whole > feed.watts else ():
            most, own = most_watts(nodes[g]), nodes[g].device.tdp_watts
            tried = {*(share * own for share in SHARES), most * feed.watts / whole}
            found.setdefault(g, set()).update(
                floor(x + ROUNDING) for x in tried if LEAST_SHARE * own <= x < most
            )
    return {g: tuple(sorted(own, reverse=True)) for g, own in found.items()}


def feed_watts(cluster: ResolvedCluster) -> dict[str, float]:
    """Watts of each feed beyond those that all its GPUs draw at rest."""
    nodes = {n.id: n for n in cluster.classes}
    feeds = sorted(cluster.feeds, key=lambda feed: feed.name)  # however they are written
    return {f.name: f.watts - sum(_at_rest(nodes[g]) for g in f.classes) for f in feeds}


def replica_watts(c: Candidate, cluster: ResolvedCluster) -> Mapping[str, float]:
    """Watts that the GPUs of a replica may draw on each feed beyond those at rest."""
    nodes, found = {n.id: n for n in cluster.classes}, dict[str, float]()
    for feed in cluster.feeds:
        here = [(nodes[g], gpus) for g, gpus in c.blocks if g in feed.classes]
        each = (gpus * (most_watts(n, c.key.power) - idle_watts(n.device.tdp_watts)) for n, gpus in here)
        if here:
            found[feed.name] = sum(each)
    return found


def check_feeds(cluster: ResolvedCluster) -> None:
    """Refuse feeds that do not hold their GPUs at rest."""
    for feed in cluster.feeds:
        if (left := feed_watts(cluster)[feed.name]) < 0:
            raise InputError(
                f"`{feed.name}` holds {feed.watts:g} W, its GPUs draw {feed.watts - left:,.0f} W at rest",
                feed.where,
                "raise it, or leave out the nodes that are switched off",
            )


def _at_rest(node: NodeClass) -> float:
    return node.gpus * idle_watts(node.device.tdp_watts)
