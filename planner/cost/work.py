"""What the seconds of a decode step go to, by kind of work: for people, no prediction hangs on it."""

from __future__ import annotations

import numpy as np

from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.shape import Designs

WORK = ("matmuls", "attention", "experts", "drafts", "communication", "engine")
"""Matrices that every token passes, the LM head and the small kernels around them; attention and its
recurrent kin; routed experts; drafting; messages, with waits for other ranks; the engine itself."""


def seconds_by_work(model: CostModel, designs: Designs, load: Load) -> dict[str, float]:
    """Seconds of one design's decode step under `load` by `WORK`, adding up to `step_s`; what takes none is
    left out.

    Kernels of all layers share the time of the round as they share that of a micro-batch: stages wait for the
    fullest. What their layers take beyond them is messages. No more exact than `step_s` itself.
    """
    at = load.over(len(designs), model.computed)
    k = float(model.decoding_batches(designs, at.sequences)[0])
    own, counts = at.divided(k, designs.cp), model.layers_by_kind
    parts = [model.layers.computed_s(kind, own, designs) for kind in model.kinds]
    attention, routed, dense = (sum(n * p[i] for n, p in zip(counts, parts, strict=True)) for i in range(3))
    layers = model.layers_s(own, designs) @ counts
    sent = np.maximum(layers - attention - routed - dense, 0.0)
    dense = dense + model.layers.head_s(own.sampled, designs)
    kernels = {"matmuls": dense, "attention": attention, "experts": routed}
    kernels |= {"drafts": model.drafting_s(own, designs), "communication": sent}
    seconds = {name: float(np.sum(x)) for name, x in kernels.items()}
    engine, hops = (float(x[0]) for x in (model.engine_s(designs, at.sequences), model.hops_s(designs, own)))
    share = (float(model.step_s(designs, load)[0]) - engine - hops) / max(sum(seconds.values()), 1e-30)
    seconds = {name: share * x for name, x in seconds.items()}
    seconds["communication"] += hops
    return {name: x for name, x in (seconds | {"engine": engine}).items() if x > 0}
