"""Which replicas with attention and FFNs on different GPUs are worth a column: decode servers, paired with
prefill replicas as any other (`planner/cost/afd.py` has their times).

Space, for each ordered pair of classes that reach each other (one class twice, too): attention ranks of tp, a
power of two inside a node, as many as fill up to a node or whole nodes; an FFN block of 1, 2, 4 … GPUs of a
node or whole nodes, divided by moe_tp inside a node and ep over all as the engine divides experts (dense
models: by tp inside a node); each block up to MOST_GPUS. All of it is timed at the largest batch that keeps
TPOT and KV room, like any candidate.

Rank: requests/s over what its GPUs are worth, `worth` by class: what they cost, or what they would decode by
themselves. Above 1 the latter says how much more a replica decodes than its GPUs do apart. The best of every
pair of block sizes stays, and of these the SHORTLIST first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from cluster_configs.schema import ClusterLink, NodeClass
from model_zoo.schema import MoeFfn
from planner.candidates.ask import Ask, usual_sizes
from planner.candidates.candidate import Candidate, Key
from planner.candidates.largest import most
from planner.candidates.mix import Mix
from planner.candidates.points import batched
from planner.candidates.setup import Made, Setup
from planner.cost.afd import AfdModel, attention_only, ffn_only
from planner.cost.afd_layout import Layout, designs_of
from planner.designs.shape import Floats, Ints
from planner.replicas.kind import Space
from planner.rules.designs import why_not_moe, why_not_together, why_not_tp

MOST_GPUS = 64
"""Largest block of GPUs: larger ones add nothing that several replicas do not."""

SHORTLIST = 32
"""Layouts that become designs."""


@dataclass(frozen=True)
class Shortlist:
    """The most promising layouts on `classes`, best first, what each decodes over what its GPUs are worth,
    and how many were ranked."""

    classes: tuple[NodeClass, ...]
    layouts: tuple[Layout, ...]
    gains: tuple[float, ...]
    ranked: int


def made(kind: str, space: Space) -> Iterator[Made]:
    """A setup for each engine with its shortlist, where attention and FFNs may stand apart; what GPUs are
    worth is read off the candidates before."""
    ask = space.ask
    for engine in ask.mixing if ask.freedom and ask.freedom.apart else ():
        able = space.able(engine)
        best = shortlist(able, space.links, ask, engine, worth(able, space.found, ask))
        if best.layouts:
            s, key = setup(able, best.layouts, space.links, engine, ask), Key("", engine, kind)
            yield replace(Made.of(key, s, None, ("decode",)), considered=best.ranked)


def shortlist(
    classes: Sequence[NodeClass],
    links: Sequence[ClusterLink],
    ask: Ask,
    engine: str,
    worth: Mapping[str, float],
) -> Shortlist:
    """The most promising of all layouts on `classes`."""
    every = list(space(classes, links, ask, engine))
    if not every or Mix.of(ask.workload).steps == 0:
        return Shortlist(tuple(classes), (), (), len(every))
    s = setup(classes, every, links, engine, ask)
    index, rate = rates(s)
    gain = rate / np.maximum([_value(every[i], worth) for i in index], 1e-12)
    found: dict[tuple[str, int, str, int], tuple[float, Layout]] = {}
    for at in np.argsort(-gain, kind="stable"):
        x = every[index[at]]
        key = (x.attention, x.attention_gpus, x.ffn, x.ffn_gpus)
        found.setdefault(key, (float(gain[at]), x))
    best = list(found.values())[:SHORTLIST]
    return Shortlist(tuple(classes), tuple(x for _, x in best), tuple(g for g, _ in best), len(every))


def setup(
    classes: Sequence[NodeClass],
    layouts: Sequence[Layout],
    links: Sequence[ClusterLink],
    engine: str,
    ask: Ask,
) -> Setup:
    """`layouts` as designs of one engine, with their memory."""
    model = AfdModel(ask.card, classes, links, layouts, engine, ask.precisions, ask.calibration)
    return ask.setup(model, designs_of(layouts), classes)


def rates(s: Setup) -> tuple[Ints, Floats]:
    """The designs of `s` that decode within the promise, and requests/s of a replica of each at its largest
    batch, (n,)."""
    fits = s.fitting
    largest = most(s, fits, "decode")
    index, batch = fits[largest > 0], largest[largest > 0]
    return index, batched(s, index, batch, "decode").rate * s.designs.attn_dp[index]


def worth(classes: Sequence[NodeClass], found: Iterable[Candidate], ask: Ask) -> dict[str, float]:
    """What one GPU of each class is worth: $/h where dollars count, else the most requests/s that one of
    `found` decodes on it; 0 where none does, and everywhere 1 where none does on any."""
    prices = {n.id: n.price_usd_per_hour for n in classes}
    if ask.objective.spends == "usd_per_hour" and None not in prices.values():
        return {n.id: (prices[n.id] or 0.0) / n.gpus_per_node for n in classes}
    alone = {n.id: 0.0 for n in classes}
    shares = dict(enumerate(ask.workload.shares))
    for c in found:
        if c.role == "decode" and c.node_class in alone:
            used = (sum(shares[w] * row.get(str(w), np.inf) for w in shares) for row in c.use.values())
            alone[c.node_class] = max(alone[c.node_class], 1 / (max(used) * c.gpus))
    return alone if any(alone.values()) else dict.fromkeys(alone, 1.0)


def _value(layout: Layout, worth: Mapping[str, float]) -> float:
    return layout.attention_gpus * worth[layout.attention] + layout.ffn_gpus * worth[layout.ffn]


def space(
    classes: Sequence[NodeClass], links: Sequence[ClusterLink], ask: Ask, engine: str
) -> Iterator[Layout]:
    """All layouts that are compared; none on llama.cpp, which decodes where it prefills."""
    if engine == "llama.cpp":
        return
    attention = {n.id: list(_attention_blocks(n, ask, engine)) for n in classes}
    ffn = {n.id: list(_ffn_blocks(n, ask, engine)) for n in classes}
    for a, f in product(classes, classes):
        if a.id != f.id and a.zone != f.zone and not any(link.joins(a, f) for link in links):
            continue
        for (tp, dp), (moe_tp, ep) in product(attention[a.id], ffn[f.id]):
            layout = Layout(a.id, f.id, tp, dp, moe_tp, ep)
            if a.id != f.id or layout.gpus <= a.gpus:
                yield layout


def _attention_blocks(node: NodeClass, ask: Ask, engine: str) -> Iterator[tuple[int, int]]:
    """(tp, ranks): up to a node, and whole nodes."""
    card = attention_only(ask.card)
    for tp in _degrees(node):
        if why_not_tp(card, engine, tp, ask.precisions) is None:
            for gpus in range(tp, min(node.gpus, MOST_GPUS) + 1, tp):
                if gpus <= node.gpus_per_node or gpus % node.gpus_per_node == 0:
                    yield tp, gpus // tp


def _ffn_blocks(node: NodeClass, ask: Ask, engine: str) -> Iterator[tuple[int, int]]:
    """(moe_tp, ep) as the engine divides experts among all ranks; of dense models (tp, 1)."""
    card = ffn_only(ask.card)
    experts = [ffn.experts for ffn in card.ffns.values() if isinstance(ffn, MoeFfn)]
    sizes = np.arange(1, min(node.gpus, MOST_GPUS) + 1)
    for gpus in sizes[usual_sizes(sizes, node.gpus_per_node)].tolist():
        for tp in _degrees(node):
            ep = gpus // tp
            ways = (tp, ep, tp, ep) if experts else (tp, 1, tp, 1)
            if (
                gpus % tp == 0
                and (experts or ep == 1)
                and all(n % ep == 0 for n in experts)
                and why_not_tp(card, engine, tp, ask.precisions) is None
                and why_not_together(card, engine, *ways) is None
                and why_not_moe(card, tp, ep, ask.precisions) is None
            ):
                yield tp, ep


def _degrees(node: NodeClass) -> list[int]:
    """Ways to divide one layer inside a node."""
    most = min(node.gpus_per_node, node.scale_up_gpus)
    return [tp for tp in range(1, most + 1) if tp & (tp - 1) == 0]
