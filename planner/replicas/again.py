"""Candidates made anew under other nodes or precisions: of the designs that some candidate has, and of those
that had no room before. The rest was dominated, and stays so nearly always: what this finds is a lower bound.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from cluster_configs.schema import NodeClass
from planner.candidates.ask import Ask
from planner.candidates.candidate import Design, Key
from planner.candidates.dominance import undominated
from planner.candidates.setup import Made, Role, Setup
from planner.cost.model import CostModel
from planner.designs.shape import Ints
from planner.replicas.alike import ROLES
from planner.replicas.generate import every_offered, varied
from planner.replicas.pool import Pool
from planner.rules.devices import supports_cache
from planner.variants import VARIANTS
from planner.variants.chunks import chunked

BESIDE = [variant for variant in VARIANTS if variant is not chunked]
"""Variants that are made anew; in which chunks prompts are computed stays as it was."""


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
    made = dict[Key, Made]()
    asked = ask if levels else replace(ask, resting=None)
    for node in classes:
        for key, old in pool.made.items():
            if key != Key(node.id, key.engine, chunk=key.chunk):
                continue
            if supports_cache(node.device, key.engine, ask.precisions.kv) is not None:
                continue
            few = among(old.setup, designs) if designs else _worth(pool, old)
            if not len(few):
                continue
            model = CostModel(ask.card, node, key.engine, ask.precisions, ask.calibration)
            s = ask.setup(model, old.setup.designs.take(few), [node], told=key.chunk)
            own = [Made.of(key, s, node, roles)]
            every = own if key.chunk else varied(own, asked, BESIDE)
            made |= {m.key: m.only(roles) for m in every if m.key.level in (0, *levels)}
    found, _ = every_offered(made.values(), ask, pool.pairing, pool.edges)
    left = undominated(found, {node.id: node.gpus_per_node for node in classes}, ask.counts)
    return replace(pool, candidates=tuple(left), made={**pool.made, **made})


def _worth(pool: Pool, old: Made) -> Ints:
    """Indices of the designs that a candidate has, and of those without room."""
    s, own = old.setup, (old.key.where, old.key.engine, old.key.chunk)
    have = {c.design for c in pool.candidates if (c.node_class, c.engine, c.chunk) == own}
    without = np.flatnonzero(~s.holds["mixed"].all(axis=1)).astype(np.int64)
    return np.union1d(among(s, have), without)


def among(s: Setup, designs: Collection[Design]) -> Ints:
    """Indices of the setup's designs of these sizes."""
    have = {(*d.sizes.values(), d.redundant, d.cp) for d in designs}
    names = ("tp", "pp", "attn_dp", "moe_tp", "ep", "redundant", "cp")
    sizes = zip(*(getattr(s.designs, name).tolist() for name in names), strict=True)
    return np.flatnonzero(np.array([size in have for size in sizes], dtype=bool)).astype(np.int64)
