"""Replicas of one class of nodes, every stage alike: the layouts that the engine accepts for the model.

Space: for each class x engine every (tp, pp, attn_dp, moe_tp, ep) that the engine accepts (`planner.rules`),
up to `MOST_GPUS` GPUs a replica, of the usual sizes (`usual_sizes`), and of one node more than the class has
(so that "one more node" is priced in the same space); roles mixed, prefill, decode. Where a bucket's prompts
are long with context parallelism (cp), too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import NodeClass
from planner.candidates.ask import Ask, serving, usual_sizes
from planner.candidates.candidate import Key
from planner.candidates.deadline import in_time
from planner.candidates.setup import Made, Role, Setup
from planner.cost.model import CostModel
from planner.designs.shape import Designs
from planner.replicas.kind import Space
from planner.rules.designs import valid_designs
from planner.rules.devices import balances

MOST_GPUS = 144
"""Largest replica offered: two racks of 72."""

ROLES: tuple[Role, ...] = ("mixed", "prefill", "decode")


def made(kind: str, space: Space) -> Iterator[Made]:
    """A setup for each class and engine that has designs."""
    for node in space.classes if not space.ask.offload else ():
        for engine in serving(node, space.ask):
            in_time()
            s = setup(node, engine, space.ask, space.one_more)
            if s is not None:
                yield Made.of(Key(node.id, engine, kind), s, node, ROLES)


def stands(designs: Designs, node: NodeClass) -> NDArray[np.bool_]:
    """True where no tensor-parallel group straddles two nodes, or two scale-up domains inside one: stages of
    a replica of several nodes fill nodes evenly, and tp divides what it is packed into.

    In nodes of 3, tp 2 x pp 3 over two nodes would split its middle stage; tp 8 on NVL72 spans two nodes of
    one domain.
    """
    whole, unit = node.gpus_per_node, min(node.gpus_per_node, node.scale_up_gpus)
    stage = designs.gpus // designs.pp
    even = (whole % stage == 0) | (stage % whole == 0)
    aligned = np.where(designs.tp <= unit, unit % designs.tp == 0, designs.tp % whole == 0)
    inside = (designs.gpus <= whole) & (unit == whole)
    halves = (unit == whole) | (unit % np.minimum(designs.gpus, unit) == 0)
    return np.asarray((inside | (even & aligned)) & halves)


def setup(node: NodeClass, engine: str, ask: Ask, one_more: bool) -> Setup | None:
    """The designs of one engine on one class, with their memory; None where the engine accepts none."""
    most = min(node.gpus + (node.gpus_per_node if one_more else 0), MOST_GPUS)
    copies = balances(node.device, engine, ask.precisions.experts)
    own = (ask.card, engine, most, most, node.scale_up_gpus, ask.precisions, copies)
    designs = valid_designs(*own, ask.context_groups)
    standing = stands(designs, node)
    offered = usual_sizes(designs.gpus, node.gpus_per_node) & standing
    left_out = int(standing.sum() - offered.sum())
    designs = designs.take(np.flatnonzero(offered))
    if len(designs) == 0:
        return None
    model = CostModel(ask.card, node, engine, ask.precisions, ask.calibration)
    return replace(ask.setup(model, designs, [node]), left_out=left_out)
