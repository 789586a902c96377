"""The proof line: gap, status and sense agree with objective and bound, and the objective is the plan's own
figure."""

from __future__ import annotations

from collections.abc import Iterator

from planner.check import budgets
from planner.check.case import Case
from planner.check.violation import EXACT, FIGURE, MODEL, Violation, at_most, same

UNITS = {"throughput": "req/s", "cost": "USD/h", "energy": "W", "gpus": "GPUs", "latency": "s"}


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with the proof."""
    proof = case.plan.proof
    gap = abs(proof.bound - proof.objective)
    own = gap / abs(proof.objective) if proof.objective else (0.0 if not gap else float("inf"))
    if not abs(proof.gap - own) <= EXACT * max(1.0, own):
        yield Violation("gap_wrong", "proof.gap", f"{proof.gap:.7g}, objective and bound give {own:.7g}")
    low, high = (proof.objective, proof.bound) if sense(case) == "max" else (proof.bound, proof.objective)
    if not at_most(low, high, EXACT):
        text = f"bound {proof.bound:.7g} is worse than objective {proof.objective:.7g} ({sense(case)})"
        yield Violation("bound_crossed", "proof.bound", text)
    if proof.status == "optimal" and not own <= EXACT:
        yield Violation("status_wrong", "proof.status", f"optimal with a gap of {own:.3g}")
    if proof.status == "within_gap" and not at_most(own, case.options.gap, EXACT):
        text = f"within_gap, but {own:.4g} is more than the {case.options.gap:.4g} asked for"
        yield Violation("status_wrong", "proof.status", text)
    if proof.space.kept > proof.space.considered:
        text = f"{proof.space.kept} kept of {proof.space.considered}"
        yield Violation("space_wrong", "proof.space", text)
    yield from _objective(case)


def goal(case: Case) -> str:
    """The objective asked for; unasked, the contract's default."""
    if case.options.objective:
        return case.options.objective
    if case.workload.rate_rps is None:
        return "throughput"
    return "cost" if all(n.price_usd_per_hour is not None for n in case.cluster.classes) else "gpus"


def sense(case: Case) -> str:
    """As stated; where the plan leaves it out, the goal's."""
    if "sense" in case.plan.proof.model_fields_set:
        return case.plan.proof.sense
    return "max" if goal(case) == "throughput" else "min"


def _objective(case: Case) -> Iterator[Violation]:
    """Unit and sense are those of the goal, and the value is the figure that the plan predicts."""
    proof, name = case.plan.proof, goal(case)
    if proof.unit not in (UNITS[name], ""):
        yield Violation("objective_wrong", "proof.unit", f"{proof.unit}, {name} is in {UNITS[name]}")
    if sense(case) != ("max" if name == "throughput" else "min"):
        yield Violation("objective_wrong", "proof.sense", f"{sense(case)} for {name}")
    own = figure(case, name)
    if own is None:
        return
    # a latency is promised at the design's own operating point; loaded less, the plan answers sooner
    agrees = at_most(own, proof.objective, MODEL) if name == "latency" else same(proof.objective, own, FIGURE)
    if not agrees:
        text = f"{proof.objective:.6g}, the plan's own figure is {own:.6g} {UNITS[name]}"
        yield Violation("objective_wrong", "proof.objective", text)


def figure(case: Case, name: str) -> float | None:
    """What the plan itself says of its goal; None where it doesn't."""
    predicted = case.plan.predicted
    if name == "throughput":
        return predicted.rps.value
    if name == "cost":
        return predicted.usd_per_hour.value if predicted.usd_per_hour else None
    if name == "energy":
        return predicted.watts.value
    if name == "gpus":
        return float(budgets.gpus_used(case))
    shares = zip(case.workload.buckets, case.workload.shares, strict=True)
    osl = sum(share * bucket.osl for bucket, share in shares)
    return (predicted.ttft_ms.value + osl * predicted.tpot_ms.value) / 1e3
