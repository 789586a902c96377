"""What a plan says was never measured: that replicas named there exist, and do what they are named for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from planner.check.case import Case
from planner.check.violation import Violation
from planner.plans.schema import Replica

USES: Mapping[str, Callable[[Replica], bool]] = {
    "pipeline": lambda r: r.pp > 1,
    "expert_parallel": lambda r: r.ep > 1,
    "attention_dp": lambda r: r.attn_dp > 1,
    "context_parallel": lambda r: r.cp > 1,
    "split": lambda r: r.role in ("prefill", "decode"),
    "draft": lambda r: r.draft is not None,
    "power_limit": lambda r: r.power_limit_watts is not None,
}
"""Whether a replica does so, by mechanism; every one has an engine, devices and formats."""


def violations(case: Case) -> Iterator[Violation]:
    """Replicas that are not there, or that do not run as they are said to."""
    groups = {r.id: r for r in case.plan.replicas}
    for i, told in enumerate(case.plan.evidence):
        where = f"evidence[{i}].replicas"
        if not told.replicas:
            yield Violation("evidence_unused", where, f"no replica is named for {told.mechanism}")
        for name in told.replicas:
            if name not in groups:
                yield Violation("evidence_unknown", where, f"{name} is not among the replicas")
            elif told.mechanism in USES and not USES[told.mechanism](groups[name]):
                yield Violation("evidence_unused", where, f"{name} has no {told.mechanism}")
