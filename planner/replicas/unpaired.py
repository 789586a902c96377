"""Why caches do not go from servers of one class of nodes to servers of another, or to none at all: the rules
of the engines that bind where a fleet might have had prefill and decode apart."""

from __future__ import annotations

from itertools import permutations, product

from model_zoo.schema import ModelCard
from planner.candidates.offers import Standing
from planner.replicas.pool import Pool
from planner.rules.pairs import Cached, unpaired


def not_at_all(pool: Pool, card: ModelCard) -> str:
    """Why no engine hands over the caches of the model here, each by its smallest design; nothing where one
    does."""
    if pool.pairing is None or pool.pairing.keys:
        return ""
    alike = [m for m in pool.plain if m.node is not None]
    sides = [s for m in alike for s in Standing(m.node, m.key).sides(m.setup, m.setup.fitting[:1])]
    reasons = (unpaired(side, side, Cached.of(card)) for side in sides)
    return "; ".join(dict.fromkeys(filter(None, reasons)))


def not_between(pool: Pool, card: ModelCard) -> str:
    """Why no engine hands over caches from one class of nodes to another, by designs that are alike on both;
    nothing where one does, and where there is one class."""
    if pool.pairing is None:
        return ""
    keys, joined, reasons = pool.pairing.keys, pool.pairing.joined, dict[str, None]()
    alike = [m for m in pool.plain if m.node is not None]
    sides = {m.key: Standing(m.node, m.key).sides(m.setup, m.setup.fitting) for m in alike}
    for one, other in permutations(sides, 2):
        if one.engine != other.engine or one.where == other.where:
            continue
        first = [p for p in sides[one] if ("prefill", p) in keys]
        second = [d for d in sides[other] if ("decode", d) in keys]
        if any((keys["prefill", p], keys["decode", d]) in joined for p, d in product(first, second)):
            return ""
        shaped = {(d.tp, d.pp, d.attn_dp, d.cp): d for d in second}
        both = [
            (p, shaped[p.tp, p.pp, p.attn_dp, p.cp]) for p in first if (p.tp, p.pp, p.attn_dp, p.cp) in shaped
        ]
        reasons |= dict.fromkeys(filter(None, (unpaired(p, d, Cached.of(card)) for p, d in both)))
    return "; ".join(reasons)
