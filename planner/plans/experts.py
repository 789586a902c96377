"""Where the experts of each replica group are: the `experts` of a Plan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from model_zoo.schema import ModelCard, MoeFfn
from planner.cost.popularity import Popularity
from planner.errors import InputError
from planner.inputs.expert_loads import ExpertLoads, read_expert_loads
from planner.plans import schema
from planner.plans.found import Group
from planner.problems.balance import fullest, place
from planner.problems.experts import moe_layers, of_model
from solvers.linear import Limits

PLACING_S = 10.0
"""For all maps of a plan together; most take a tenth of a second."""


def read_loads(path: str | Path, card: ModelCard) -> ExpertLoads:
    """Recorded loads of the model's experts. Raises InputError where they are another model's."""
    loads, layers = of_model(read_expert_loads(path), card, str(path)), moe_layers(card)
    if missing := sorted(set(layers) - set(loads.layers or layers)):
        raise InputError(
            f"loads of {loads.tokens.shape[1]} layers, and {card.name} has {len(layers)} with experts",
            str(path),
            f"a plan places the experts of all of them: layer {missing[0]} is missing",
        )
    return loads


def experts_of(made: Sequence[Group], limits: Limits) -> schema.Experts | None:
    """One entry a group; None for a model without experts."""
    card = made[0].setup.model.card
    counts = {ffn.experts for ffn in card.ffns.values() if isinstance(ffn, MoeFfn)}
    if not counts:
        return None
    loads = made[0].setup.model.calibration.popularity
    stop = time.perf_counter() + min(limits.seconds, PLACING_S)
    placed: dict[tuple[int, int], schema.ExpertMap] = {}
    for g in made:
        d, stage = g.candidate.design, g.candidate.gpus // g.candidate.design.pp
        node = min(g.setup.model.node_class.gpus_per_node, stage)
        if (d.ep, d.redundant) not in placed:
            within = Limits(limits.gap, max(0.1, stop - time.perf_counter()), seed=limits.seed)
            placed[d.ep, d.redundant] = _entry(g, loads, max(counts), max(1, node // d.moe_tp), within)
    every = [
        placed[g.candidate.design.ep, g.candidate.design.redundant].model_copy(update={"replica": g.id})
        for g in made
    ]
    tokens = [] if loads.tokens is None else loads.tokens.sum(axis=0).tolist()
    return schema.Experts(loads=loads.source, tokens=tokens, replicas=every)


def _entry(
    g: Group, loads: Popularity, experts: int, ranks_per_node: int, limits: Limits
) -> schema.ExpertMap:
    """The expert map of a group's design."""
    d, recorded = g.candidate.design, loads.tokens
    slots = -(-(experts + d.redundant) // d.ep)
    entry = schema.ExpertMap(
        replica=g.id,
        ep=d.ep,
        redundant=d.redundant,
        slots_per_rank=slots,
        placement="balancer" if d.redundant else "in order",
        hottest=loads.hottest(experts, d.ep, d.redundant),
        in_order=loads.in_order(experts, d.ep),
    )
    if recorded is None or d.ep == 1:
        return entry
    found = place(recorded.sum(axis=0), d.ep, d.redundant, ranks_per_node, limits)
    return entry.model_copy(
        update={
            "placement": "map",
            "hottest": fullest(recorded, np.array(found.place, dtype=np.int64)),
            "bound": float(found.balance_bound.mean()),
            "map": found.place,
        }
    )
