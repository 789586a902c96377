"""Where as much as possible is to be served, every GPU works, or the plan says which don't and why."""

from __future__ import annotations

from collections.abc import Iterator

from cluster_configs.schema import NodeClass
from planner.check.case import Case, gpus_of
from planner.check.violation import Violation


def violations(case: Case) -> Iterator[Violation]:
    """Idle GPUs of each class against the `idle_gpus` warnings."""
    if case.goal != "throughput":
        return
    for node_class in case.cluster.classes:
        idle = node_class.gpus - used(case, node_class)
        own = [w for w in case.plan.warnings if (w.code, w.node_class) == ("idle_gpus", node_class.id)]
        told = sum(w.count or 0 for w in own if w.reason)
        if idle != told:
            text = f"{idle} of {node_class.gpus} GPUs are idle, warnings with a reason speak of {told}"
            yield Violation("idle_not_told", f"class {node_class.id}", text)


def used(case: Case, node_class: NodeClass) -> int:
    """GPUs of the class that replicas take."""
    return sum(replica.count * gpus_of(replica, node_class.id) for replica in case.plan.replicas)
