"""What tensor parallelism over small machines would give, each with GPU and host memory of its own: every
layer cut over all nodes, which all work at once, in place of layer after layer on one node after the other.

TPI-LLM (arXiv:2410.00531) does so; no stock engine shares layers between GPU and CPU and between machines at
once (llama.cpp's tensor split over RPC is not in a release: pull 26610). An estimate, shown beside the plan:

    step = (the plan's own on GPUs and hosts, one node after the other) / nodes + 2 all-reduces a layer
           + the engine's own seconds
"""

from __future__ import annotations

import numpy as np

from planner.beside.planned import Planned
from planner.beside.rivals import estimated, gains
from planner.cost.attention import Load
from planner.cost.offload import OffloadModel
from planner.plans.found import Group
from planner.plans.operation import index_of
from planner.plans.schema import Alternative

WHAT = "tensor parallel over the nodes, weights in GPU and host memory of each"


def cut_over_nodes(planned: Planned) -> list[Alternative]:
    """Where the plan runs one kind of replica over several equal nodes with weights in host memory, and would
    gain."""
    if not planned.asked.offload or not planned.open_ended or len(planned.made) != 1:
        return []
    (g,) = planned.made
    design, mix, batch = g.candidate.design, g.setup.mix, g.candidate.batch
    if not design.on_nodes or len({stage.node_class for stage in design.stages}) > 1:
        return []
    decode_s, network_s = _step_s(g, Load.of(batch, mix.context))
    prompt_s, _ = _step_s(g, Load.of(tokens=mix.prompt, keys=mix.prompt / 2))
    steps = max(mix.steps, 1.0)
    token_s = decode_s + batch * prompt_s / steps
    theirs = g.count * batch / (steps * token_s)
    why = (
        f"no stock engine does (TPI-LLM does): TPOT {1e3 * token_s:,.0f} ms for a batch of {batch}, "
        f"{network_s / token_s:.0%} of it all-reduces; unmeasured"
    )
    return [estimated(WHAT, planned.fleet, theirs, why)] if gains(planned.fleet, theirs) else []


def _step_s(g: Group, load: Load) -> tuple[float, float]:
    """A step, and its all-reduces in it."""
    model, design = g.setup.model, g.setup.designs.take(np.array([index_of(g.setup, g.candidate)]))
    assert isinstance(model, OffloadModel)
    by = model.seconds_by(design, load)
    in_turn_s = sum(by.values()) - by["network"] - by["engine"]
    met_s = float(model.layers.summed_s(np.atleast_1d(load.rows), design.gpus)[0])
    network_s = 2 * len(model.card.stack) * met_s
    return in_turn_s / len(g.candidate.design.on_nodes) + by["engine"] + network_s, network_s
