"""Candidates made anew under other nodes or precisions: of the designs that some candidate has, and of those
that had no room before. The rest was dominated, and stays so nearly always: what this finds is a lower bound.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from cluster_configs.schema import NodeClass
from planner.candidates import drafts
from planner.candidates.ask import Ask
from planner.candidates.candidate import Candidate, Design
from planner.candidates.dominance import Counts, undominated
from planner.candidates.generate import KEEPING, ROLES, Pool, keeping, offers
from planner.candidates.offers import Standing
from planner.candidates.setup import Role, Setup
from planner.cost.model import CostModel
from planner.cost.shape import Ints
from planner.device_rules import supports_cache


def anew(
    pool: Pool,
    classes: Sequence[NodeClass],
    ask: Ask,
    roles: Sequence[Role] = ROLES,
    levels: Collection[int] = (),
    designs: Collection[Design] = (),
) -> Pool:
    """Candidates in `roles` of one class each on `classes` (in place of those of the same id) for `ask`, at
    these levels of keeping idle cache and without, with its drafts and without; setups with them.
    `designs`: of these alone."""
    counts = Counts.of(ask.objective.goal, ask.watts_limited)
    made: list[Candidate] = []
    setups: dict[tuple[str, str, int], Setup] = {}
    kept: dict[tuple[str, str, int], Setup] = {}
    drafted: dict[tuple[str, str, int, str], Setup] = {}
    for node in classes:
        for (where, engine, chunk), old in pool.setups.items():
            if where != node.id or supports_cache(node.device, engine, ask.precisions.kv) is not None:
                continue
            few = _among(old, designs) if designs else _worth(pool, old, where, engine, chunk)
            if not len(few):
                continue
            model = CostModel(ask.card, node, engine, ask.precisions, ask.calibration)
            s = setups[where, engine, chunk] = ask.setup(model, old.designs.take(few), [node], told=chunk)
            at = ask.standing(node, engine, pool.pairing, chunk)
            made += offered(s, roles, at, pool, counts)
            for own in drafts.of(s, node, engine, ask) if not chunk else ():
                drafted[where, engine, chunk, drafts.name(own)] = own
                made += offered(own, [r for r in roles if r in drafts.roles(own)], at, pool, counts)
            for level in ask.keeping(node, engine) if levels and not chunk else ():
                assert level.keep is not None
                if level.keep.number not in levels:
                    continue
                kept[node.id, engine, level.keep.number] = own = keeping(s, node, level)
                made += offered(own, [r for r in roles if r in KEEPING], at, pool, counts)
    left = undominated(made, {node.id: node.gpus_per_node for node in classes}, counts)
    own_setups, own_kept = {**pool.setups, **setups}, {**pool.kept, **kept}
    known = {**pool.drafted, **drafted}
    return replace(pool, candidates=tuple(left), setups=own_setups, kept=own_kept, drafted=known)


def offered(s: Setup, roles: Sequence[Role], at: Standing, pool: Pool, counts: Counts) -> list[Candidate]:
    """What all designs of a setup that have room offer in `roles`."""
    offered = offers(s, s.fitting, roles, at, pool.edges)
    return [c for offer in offered for c in offer.candidates(counts)]


def _worth(pool: Pool, s: Setup, where: str, engine: str, chunk: int) -> Ints:
    """Indices of the designs that a candidate has, and of those without room."""
    own = (where, engine, chunk)
    have = {c.design for c in pool.candidates if (c.node_class, c.engine, c.chunk) == own}
    without = np.flatnonzero(~s.holds["mixed"].all(axis=1)).astype(np.int64)
    return np.union1d(_among(s, have), without)


def _among(s: Setup, designs: Collection[Design]) -> Ints:
    """Indices of the setup's designs of these sizes."""
    have = {(*d.sizes.values(), d.redundant, d.cp) for d in designs}
    names = ("tp", "pp", "attn_dp", "moe_tp", "ep", "redundant", "cp")
    sizes = zip(*(getattr(s.designs, name).tolist() for name in names), strict=True)
    return np.flatnonzero(np.array([size in have for size in sizes], dtype=bool)).astype(np.int64)
