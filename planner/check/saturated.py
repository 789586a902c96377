"""What a plan of random arrivals says of a closed loop: there only in place of a rate, within the limits,
and as many requests in flight as there is room for."""

from __future__ import annotations

from collections.abc import Iterator

from planner.check.case import Case
from planner.check.violation import FIGURE, MODEL, Violation, at_most, same


def violations(case: Case) -> Iterator[Violation]:
    """What contradicts the workload; nothing where no closed loop is told of."""
    told, workload = case.plan.saturated, case.workload
    if told is None:
        return
    if workload.loop == "closed" or workload.rate_rps is not None:
        yield Violation("saturated_unasked", "saturated", "the plan is of a rate, or of a closed loop itself")
        return
    out = told.rps * case.mean(lambda b: b.osl)
    if not same(told.out_tok_per_s, out, FIGURE):
        text = f"{told.out_tok_per_s:.6g}, but the requests have {out:.6g} output tok/s"
        yield Violation("saturated_wrong", "saturated.out_tok_per_s", text)
    relaxed = {w.code for w in case.plan.warnings} & {"slo_relaxed"}
    relaxed |= {"median"} if workload.slo.percentile == "p50" else set()  # which the mean may be beyond
    for name, limit in workload.slo.limits.items():
        if not relaxed and not at_most(getattr(told, name), limit, MODEL):
            text = f"{getattr(told, name):.5g} ms, the limit is {limit:g} ms"
            yield Violation("saturated_missed", f"saturated.{name}", text)
    seconds = (told.ttft_ms + case.mean(lambda b: b.osl - 1) * told.tpot_ms) / 1e3
    alike = len({b.osl for b in workload.buckets}) == 1
    if alike and not same(told.in_flight, told.rps * seconds, MODEL):
        text = f"{told.in_flight:.4g}, by Little's law {told.rps * seconds:.4g}"
        yield Violation("saturated_wrong", "saturated.in_flight", text)
    room = sum(r.count * r.max_batch for r in case.plan.replicas if r.role != "prefill")
    if not at_most(told.in_flight, room, MODEL):
        yield Violation("saturated_over", "saturated.in_flight", f"{told.in_flight:.4g}, room for {room}")
