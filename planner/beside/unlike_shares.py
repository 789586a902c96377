"""A long prompt divided over groups of unlike GPUs (context parallelism, a ring), each with its own share of
the tokens, so that all are through together. No engine starts unlike shares as it comes.

A group is tp GPUs of one class with all layers; of every CHUNK tokens each takes its share x, dealt in
zig-zag, early and late ones alike, so that causal attention is in proportion to x. A group of class c takes

    fixed[c] + each[c] x    a line through two shares near even ones of the cost model, x <= most[c] tokens

and T, at which all are through, is where sum(c) groups[c] clip((T - fixed[c]) / each[c], 0, most[c]) is the
prompt. After every chunk the keys and values so far pass the ring, to each group those that it has not: what
that takes on its slowest way comes on top. That other shares would make the ring sooner is left out.

Source     ring: Liu et al. 2023 (arXiv:2310.01889); zig-zag: Brandon et al. 2023 (Striped Attention,
           arXiv:2311.09431). Unlike shares are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from cluster_configs.schema import ResolvedCluster
from model_zoo.schema import Attention, Mla
from planner.beside.lone_prompts import Lone, line
from planner.beside.planned import Planned
from planner.candidates.ask import CHUNKS
from planner.candidates.candidate import Key
from planner.cost.attention import Load
from planner.cost.memory import kv_bytes_per_seq
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import Floats, like
from planner.plans.schema import LongPrompt
from planner.problems.ways import route
from planner.rules.designs import why_invalid

TPS = (1, 2, 4, 8)
"""GPUs of a group that takes a share."""

MOST_CLASSES, MOST_GROUPS = 3, 16
"""More classes have too many combinations; more groups pass their keys and values too often."""

CHUNK = CHUNKS[-1]
"""Tokens of a step of all groups together: large ones make a ring pass less often."""

Parts = Sequence[tuple[CostModel, int]]
"""The model of each class of a ring, and its tp."""


def unlike_shares(planned: Planned) -> Iterator[LongPrompt]:
    """Unlike shares of the prompt for the groups of unlike classes, the quickest."""
    asked, card = planned.asked, planned.asked.card
    classes = asked.cluster.classes
    kept = all(isinstance(mixer, Attention | Mla) for mixer in card.mixers.values())
    served = all(Key(c.id, "vllm") in planned.found.pool.made for c in classes)
    if not 2 <= len(classes) <= MOST_CLASSES or not kept or not served:
        return
    used = precisions(card, asked.options.precision, asked.options.kv_precision)
    models = [CostModel(card, c, "vllm", used, asked.calibration) for c in classes]
    able = [tp for tp in TPS if why_invalid(card, "vllm", tp=tp, moe_tp=tp) is None]
    sizes = [[0, *(tp for tp in able if tp <= c.gpus_per_node)] for c in classes]  # 0: without the class
    isl = max(b.isl for b in asked.workload.buckets)
    rings = ([(m, tp) for m, tp in zip(models, tps, strict=True) if tp] for tps in product(*sizes))
    found = [lone for parts in rings if (lone := divided(asked.cluster, parts, isl))]
    if found:
        yield line("context parallel, unlike shares", min(found, key=lambda lone: lone.seconds), None)


def divided(cluster: ResolvedCluster, parts: Parts, isl: int) -> Lone | None:
    """A prompt on all GPUs of the classes of `parts`; None where these are fewer than two or not joined, or
    groups are too many or lack room."""
    groups = np.array([m.node_class.gpus // tp for m, tp in parts])
    if len(parts) < 2 or groups.sum() > MOST_GROUPS:
        return None
    fixed_s, each_s, most = np.array([share_of(m, tp, isl, int(groups.sum())) for m, tp in parts]).T
    if not most.all() or groups @ most < isl:
        return None
    work_s, x = shares(isl, groups, fixed_s, each_s, most)
    ring_s = around_s(cluster, parts, x, isl)
    if ring_s is None:
        return None
    started_s = max(float(m.tuning.started_s(isl)) for m, _ in parts)
    words = [
        f"{own:.0%} on {n} x tp{tp} {m.node_class.id}"
        for (m, tp), n, own in zip(parts, groups, groups * x / isl, strict=True)
    ]
    said = f"{' + '.join(words)}, chunks of {CHUNK:,}"
    return Lone(started_s + work_s + ring_s, float(groups @ most), said, "vllm")


def share_of(m: CostModel, tp: int, isl: int, groups: int) -> tuple[float, float, float]:
    """Seconds of a group whatever its share, seconds a token of it, and the most tokens that it has room
    for."""
    one, stage, share = like(1, tp), np.zeros(1, dtype=np.int64), CHUNK / groups
    low, high = share / 2, share * 1.5
    near = Load.of(tokens=np.array([low, high]), keys=isl / 2)
    low_s, high_s = m.step_s(like(2, tp), near).tolist()
    each_s = (high_s - low_s) / (high - low)
    room = m.memory(one, int(2 * share), isl / groups).kv_bytes[0]
    held = m.cache_bytes(one, np.array([isl / groups]), stage)[0, 0]
    return isl / CHUNK * max(low_s - each_s * low, 0.0), each_s, max(room, 0.0) / held * isl / groups


def shares(
    tokens: float, groups: Floats, fixed_s: Floats, each_s: Floats, most: Floats
) -> tuple[float, Floats]:
    """Seconds after which all groups are through, and the tokens of a group of each class.

    >>> one = np.ones(2)
    >>> shares(1e6, one, 0 * one, np.array([1e-5, 3e-5]), np.array([6e5, 1e6]))
    (12.0, array([600000., 400000.]))
    """

    def taken(seconds: float) -> Floats:
        return np.clip((seconds - fixed_s) / each_s, 0.0, most)

    bends_s = np.sort([*fixed_s, *(fixed_s + each_s * most)])
    seconds = float(np.interp(tokens, [groups @ taken(bend) for bend in bends_s], bends_s))
    return seconds, taken(seconds)


def around_s(cluster: ResolvedCluster, parts: Parts, x: Floats, isl: int) -> float | None:
    """Seconds that keys and values take from a group to the next, which has its `x` of the tokens itself, on
    the slowest way; None where nothing joins two classes."""
    ways_s = []
    for i, (m, tp) in enumerate(parts):
        j = (i + 1) % len(parts)
        way = route(m.node_class, parts[j][0].node_class, cluster)
        if way is None:
            return None
        ends_s = [_hop_s(*part, isl, part[0].links.domain + 1) for part in (parts[i], parts[j])]
        link_s = tp * passed_bytes(m, tp, isl) / way.link.bytes_per_s if way.link else 0.0
        ways_s.append(max(*ends_s, link_s) * (1 - x[j] / isl))
        if m.node_class.gpus > tp:
            ways_s.append(_hop_s(m, tp, isl, m.node_class.gpus) * (1 - x[i] / isl))
    return float(max(ways_s))


def passed_bytes(m: CostModel, tp: int, isl: int) -> float:
    """Keys and values on a rank that pass after each chunk: all so far, in windows no more than these."""
    ends = np.minimum(CHUNK * np.arange(1, np.ceil(isl / CHUNK) + 1), isl)
    return float(kv_bytes_per_seq(m.card, like(1, tp), m.precisions, None, ends).sum())


def _hop_s(m: CostModel, tp: int, isl: int, gpus: int) -> float:
    """Seconds of all of them from a group to another among `gpus`, inside a scale-up domain or not."""
    return float(m.links.hop_s(np.array([passed_bytes(m, tp, isl)]), np.array([gpus]))[0])
