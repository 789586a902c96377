"""What peer-to-peer between the GPUs of a node would bring, where nobody said that they have it.

Over PCIe it is a fact of the machine, mostly missing in clouds, and without it a prompt's KV cache goes
through host memory (planner/cost/transfer.py), so that plans hardly split prefill from decode. The same
candidates are solved once more with it; shown is a split that is sure to pay.
"""

from __future__ import annotations

from dataclasses import replace

from cluster_configs.schema import NodeClass
from planner.beside.planned import Planned
from planner.beside.reasons import Fleet, describe
from planner.plans.schema import Alternative
from planner.search.find import find
from planner.search.splits import APART, SURE
from solvers.fleet import relaxed

WHAT = "peer-to-peer between the GPUs of a node (peer_to_peer: true)"


def peer_to_peer(planned: Planned) -> list[Alternative]:
    """Return the best fleet if the GPUs of all nodes on PCIe read each other's memory, where it splits and is
    better by what measured splits must promise. Nothing for cards whose driver refuses it."""
    question, pool = planned.question, planned.found.pool
    classes = question.cluster.classes
    if not any(_might(node) for node in classes) or question.objective.spends in APART:
        return []
    if {c.role for c in pool.candidates} != {"mixed", "prefill", "decode"} or not planned.fleet.objective:
        return []
    peers = tuple(replace(node, peer_to_peer=node.peer_to_peer or _might(node)) for node in classes)
    question = replace(question, cluster=replace(question.cluster, classes=peers))
    most = relaxed(question.state(pool, "bound"), planned.limits)
    if most is None or planned.fleet.gain(most) < SURE - 1:
        return []
    rival = find(question, pool, planned.limits)
    objective = planned.known(rival.solution)
    if objective is None or planned.fleet.gain(objective) < SURE - 1 or not Fleet(rival).splits:
        return []
    why = (
        f"{describe(Fleet(rival).made)}; nobody said that they have it (`nvidia-smi topo -p2p r` tells), "
        "and no split over PCIe was measured to win"
    )
    return [Alternative(what=WHAT, objective=objective, loss=0.0, why=why)]


def _might(node: NodeClass) -> bool:
    """Whether a node's GPUs may have peer-to-peer that nobody spoke of."""
    over_pcie = node.device.intra_link == "pcie" and node.gpus_per_node > 1
    return over_pcie and not node.peer_to_peer and node.device.peer_to_peer is not False
