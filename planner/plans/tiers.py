"""What of a replica lies beside its GPUs, and what a decode step's seconds go to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from planner.cost.attention import Load
from planner.cost.work import seconds_by_work
from planner.designs.shape import Designs, Floats
from planner.plans import schema
from planner.plans.found import Group
from planner.plans.operation import index_of

if TYPE_CHECKING:
    from planner.cost.offload import OffloadModel


Parts = Iterable[schema.Tiered]


def seconds_by(g: Group) -> dict[str, float]:
    """Seconds of the group's decode step by resource; of replicas that lie on their GPUs by kind of work, and
    of stages on several classes nothing."""
    if g.candidate.role == "prefill" or not g.operation.decode_s:
        return {}
    designs, context = _design(g), g.setup.mix.context
    sequences = max(g.operation.sequences, 1.0)  # a step that is made has one
    load = Load.of(sequences, context)
    if g.candidate.design.offloads:
        found = _model(g).seconds_by(designs, load)
    elif g.candidate.design.stages:
        return {}
    else:
        found = seconds_by_work(g.setup.model, designs, load)
    scale = g.operation.decode_s / max(sum(found.values()), 1e-30)
    return {name: scale * seconds for name, seconds in found.items()}


def tiers(made: Sequence[Group]) -> list[schema.Tiered]:
    """All that lies beside the GPUs."""
    return [part for g in made if g.candidate.design.offloads for part in _of(g)]


def _of(g: Group) -> Parts:
    from planner.cost.placements import held_bytes  # here, not above: few plans need it

    model, at = _model(g), index_of(g.setup, g.candidate)
    stages, kinds = model.placements[at], np.asarray(model.card.kinds[1])
    behind = float(model.cxl_bytes[at]) / max(float(model.host_bytes[at]), 1.0)
    many = [ffn.experts if ffn else 0 for ffn in model.ffns]
    first, cached = stages[0].layers[0], float(model.cached[at])
    away, before = model.copied(_design(g), Load.of(g.operation.sequences, g.setup.mix.context))
    out = 1 - stages[0].kept / max(*many, 1)
    own = [[i for i in range(*stage.layers) if many[kinds[i]]][: stage.away] for stage in stages]
    experts = [(i, away[kinds[i]]) for layers in own for i in layers]
    experts += [(i, before[kinds[i]]) for i in range(first) if many[kinds[i]]]
    rest = [(i, before[kinds[i]]) for i in range(first)]

    def parts(
        tier: str,
        what: str,
        among: Sequence[tuple[int, bool]],
        share: float,
        size: Floats,
        stage: int | None = None,
    ) -> Parts:
        for copied in (False, True):
            layers = sorted(i for i, way in among if way == copied)
            if layers and share > 0 and size[kinds[layers]].any():
                yield schema.Tiered.model_validate(
                    {
                        "replica": g.id,
                        "tier": tier,
                        "what": what,
                        "layers": ranges(layers),
                        "share": share,
                        "bytes": share * float(size[kinds[layers]].sum()),
                        "way": "pcie" if copied else "cpu",
                        "stage": stage,
                    }
                )

    memory = (("host", 1 - behind), ("cxl", behind))
    for tier, share in (*((t, cached * part) for t, part in memory), ("nvme", 1 - cached)):
        yield from parts(tier, "experts", experts, share * out, model.held.experts)
    on_disk = cached < 1 and not any(many)
    for tier, share in [("nvme", 1.0)] if on_disk else memory:
        yield from parts(tier, "layers", rest, share, model.held.layer - model.held.experts)
    size = stages[0].tp * held_bytes(model, stages[0].tp).layer
    for tier, share in memory:
        yield from parts(tier, "weights", [(i, True) for i in stages[0].streams], share, size)
    for s, stage in enumerate(stages):
        behind_it = [(i, False) for i in range(stage.layers[1], stage.layers[1] + stage.after)]
        for tier, share in model.shares_behind(at, stage.node):
            yield from parts(tier, "experts", behind_it, share, model.held.experts, s)
            yield from parts(tier, "layers", behind_it, share, model.held.layer - model.held.experts, s)


def ranges(layers: Sequence[int]) -> list[tuple[int, int]]:
    """Rising layer numbers as half-open ranges.

    >>> ranges([0, 1, 2, 5, 6])
    [(0, 3), (5, 7)]
    """
    if not layers:
        return []
    breaks = [i + 1 for i, (a, b) in enumerate(pairwise(layers)) if b != a + 1]
    edges = pairwise([0, *breaks, len(layers)])
    return [(layers[a], layers[b - 1] + 1) for a, b in edges]


def _design(g: Group) -> Designs:
    return g.setup.designs.take(np.array([index_of(g.setup, g.candidate)]))


def _model(g: Group) -> OffloadModel:
    from planner.cost.offload import OffloadModel  # here, not above: few plans need it

    model = g.setup.model
    assert isinstance(model, OffloadModel)
    return model
