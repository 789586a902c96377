"""What tensor parallelism over small machines would give, each with GPU and host memory of its own: every
layer cut over all nodes, which all work at once, in place of layer after layer on one node after the other.

TPI-LLM (arXiv:2410.00531) does so; no stock engine shares layers between GPU and CPU and between machines at
once (llama.cpp's tensor split over RPC is not in a release: pull 26610). An estimate, shown beside the plan:

    step = [sum over layers of phi * on the GPU + (1 - phi) * on the CPU] / nodes + 2 all-reduces a layer

phi the share of weights that the GPUs of all nodes hold; on the CPU by the engine's shares of the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.beside.planned import Planned
from planner.beside.rivals import estimated, gains
from planner.cost.attention import Load
from planner.cost.host import HostStage, host_of
from planner.designs.shape import Floats, like
from planner.plans.found import Group
from planner.plans.schema import Alternative

if TYPE_CHECKING:
    from planner.cost.rpc import RpcModel

WHAT = "tensor parallel over the nodes, weights in GPU and host memory of each"


def cut_over_nodes(planned: Planned) -> list[Alternative]:
    """Where the plan runs one kind of replica over several equal nodes with weights in host memory, and would
    gain."""
    if not planned.asked.offload or not planned.open_ended or len(planned.made) != 1:
        return []
    from planner.cost.rpc import RpcModel  # here, not above: it loads SciPy, and most plans need none of it

    (g,) = planned.made
    model = g.setup.model
    if not isinstance(model, RpcModel) or len({s.node_class for s in g.candidate.design.stages}) > 1:
        return []
    rate, token_s, network_s = _estimate(g, model)
    why = (
        f"no stock engine does (TPI-LLM does): TPOT {1e3 * token_s:,.0f} ms for a batch of "
        f"{g.candidate.batch}, {network_s / token_s:.0%} of it all-reduces; unmeasured"
    )
    theirs = g.count * rate
    return [estimated(WHAT, planned.fleet, theirs, why)] if gains(planned.fleet, theirs) else []


def _estimate(g: Group, model: RpcModel) -> tuple[float, float, float]:
    """Requests/s of one replica, seconds of a decode step, and of its all-reduces."""
    mix, batch = g.setup.mix, float(g.candidate.batch)
    new = float(mix.new @ mix.share)
    token_s, network_s = _step_s(g, model, batch, mix.context, 0.0)
    prompt_s, _ = _step_s(g, model, 0.0, 0.0, new)
    both = token_s + batch * prompt_s / max(mix.steps, 1.0)
    return batch / (max(mix.steps, 1.0) * both), both, network_s


def _step_s(g: Group, model: RpcModel, batch: float, context: float, tokens: float) -> tuple[float, float]:
    """A step, and its all-reduces in it."""
    one = np.ones(1)
    load = Load(batch * one, context * one, tokens * one, tokens / 2 * one)
    node, stages = model.node_class, g.candidate.design.stages
    nodes = len(g.candidate.design.on_nodes)
    host = host_of(node, node.gpus_per_node, 1)
    assert host is not None
    here = model.layer_s(load)[0]
    cpu = model.cpu_layer_s(load, host, host.bytes_per_s)
    counts = np.bincount(np.asarray(model.card.kinds[1]), minlength=len(model.kinds))
    staged = [stage for stage in stages if isinstance(stage, HostStage)]
    on_gpus = sum(stage.layers[1] - stage.layers[0] - stage.away for stage in staged)
    phi = on_gpus / counts.sum()
    message: Floats = model.links.all_reduce_s(
        2.0 * model.card.hidden * load.rows, np.array([nodes * node.gpus_per_node])
    )
    reduces = 2 * counts.sum() * float(message[0])
    head = float(model.layers.head_s(load.sampled, like(1, 1))[0]) / len(stages)
    work = float(counts @ (phi * here / node.gpus_per_node + (1 - phi) * cpu))
    return work / nodes + head + reduces, reduces
