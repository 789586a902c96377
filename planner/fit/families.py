"""The largest model of each family that runs on a cluster, in its checkpoint's precision.

Largest by parameters; of equals the one whose checkpoint has the most bytes: the least quantised.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from cluster_configs.schema import ResolvedCluster
from model_zoo.derive import total_params, weight_bytes
from model_zoo.schema import ModelCard
from planner.fit.fits import Ask, Row, class_fit
from planner.fit.speeds import Speed, speeds

_SIZE = re.compile(r"-(\d+x)?\d+(\.\d+)?b(-|$)")
_FIRST = re.compile(r"[^-]+(-\d+(\.\d+)?(?=-|$))?")


@dataclass(frozen=True)
class Largest:
    """`row`: the parallelism that is quickest for the readers asked for; its replica holds `row.concurrency`
    users of `context` tokens."""

    family: str
    model: str
    params: int
    context: int
    node_class: str
    device: str
    engine: str
    row: Row
    speed: Speed


def family(name: str) -> str:
    """A card's name up to its size; without a size its first word, with the version that follows.

    >>> [family(n) for n in ("llama-3.1-70b-fp8", "mixtral-8x7b", "deepseek-v3.1-nvfp4", "glm-4.5-air")]
    ['llama-3.1', 'mixtral', 'deepseek', 'glm-4.5']
    """
    if size := _SIZE.search(name):
        return name[: size.start()]
    first = _FIRST.match(name)
    return first[0] if first else name


def largest_of_each(asks: Iterable[Ask], cluster: ResolvedCluster, readers: int = 1) -> list[Largest]:
    """For each family of the models asked about, the largest that holds so many readers at once on one class
    of nodes, where it is quickest; largest first. Families of which nothing fits are left out."""
    by_family: defaultdict[str, list[Ask]] = defaultdict(list)
    for ask in asks:
        by_family[family(ask.card.name)].append(ask)
    found: list[Largest] = []
    for name, members in by_family.items():
        ordered = sorted(members, key=lambda ask: size(ask.card), reverse=True)
        fitting = (one for ask in ordered if (one := _quickest(name, ask, cluster, readers)))
        found += islice(fitting, 1)
    return sorted(found, key=lambda one: -one.params)


def size(card: ModelCard) -> tuple[int, float, str]:
    """What makes one model larger than another: parameters, then bytes; the name settles the rest."""
    return total_params(card), sum(weight_bytes(card).values()), card.name


def _quickest(name: str, ask: Ask, cluster: ResolvedCluster, readers: int) -> Largest | None:
    """On the class that serves each reader quickest; None: it fits on none."""
    found = []
    for node in cluster.classes:
        part = class_fit(ask, node)
        for row, speed in list(speeds(ask, node, part, readers).items())[:1]:
            params, served = total_params(ask.card), part.engine or ""
            found.append(
                Largest(name, ask.card.name, params, ask.tokens, node.id, part.device, served, row, speed)
            )
    return max(found, key=lambda one: one.speed.tok_per_s, default=None)
