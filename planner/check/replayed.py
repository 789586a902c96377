"""A plan that a replay sized: its promise is that of the workload, kept, and by a fleet for no less than its
rate. The replay itself is not run again: `meshwright simulate` does."""

from __future__ import annotations

from collections.abc import Iterator

from planner.check.case import Case
from planner.check.violation import EXACT, Violation, at_most, same

PROMISED = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}

NEAREST = 0.01
"""What a share of requests may lie below its percentile, which is taken between two of them."""


def violations(case: Case) -> Iterator[Violation]:
    """What contradicts the workload; nothing where nothing was replayed."""
    told, slo, rate = case.plan.replayed, case.workload.slo, case.workload.rate_rps
    if told is None:
        return
    if rate is None or (slo.percentile == "mean" and slo.e2e_ms is None):
        yield Violation("replay_unasked", "replayed", "there is nothing at a rate that a replay is for")
        return
    if not same(told.rate_rps, rate, EXACT):
        text = f"{told.rate_rps:g} requests/s were replayed, {rate:g} are asked for"
        yield Violation("replay_unlike", "replayed.rate_rps", text)
    if not at_most(rate, told.sized_rps, EXACT):
        text = f"sized for {told.sized_rps:g} requests/s, fewer than the {rate:g} that come"
        yield Violation("replay_unlike", "replayed.sized_rps", text)
    if told.busy_to_s < told.busy_from_s or told.busy > told.requests:
        yield Violation(
            "replay_unlike", "replayed.busy", "a busy period that ends before it begins, or beyond all"
        )
    for name, limit, tight in (
        ("ttft_ms", slo.ttft_ms, told.ttft_ms),
        ("tpot_ms", slo.tpot_ms, told.tpot_ms),
        ("e2e_ms", slo.e2e_ms, slo.e2e_ms),
    ):
        yield from _limit(case, name, limit, tight)


def _limit(case: Case, name: str, limit: float | None, tight: float | None) -> Iterator[Violation]:
    """One limit: told as asked for, planned for no more loosely, kept by what was achieved."""
    told, where = case.plan.replayed, f"replayed.achieved.{name}"
    assert told is not None
    got = told.achieved.get(name)  # type: ignore[call-overload]
    looser = limit is not None and (tight is None or not at_most(tight, limit, EXACT))
    if looser or (tight is not None and limit is None and case.workload.slo.e2e_ms is None):
        yield Violation(
            "replay_unlike", f"replayed.{name}", f"planned for {tight} ms where {limit} ms is the limit"
        )
    if got is None:
        decoded = any(bucket.osl > 1 for bucket in case.workload.buckets)
        if limit is not None and (decoded or name != "tpot_ms"):
            yield Violation("replay_missed", where, f"nothing is said of what was achieved of {limit:g} ms")
        return
    if limit is None or not same(got.limit_ms, limit, EXACT):
        yield Violation("replay_unlike", f"{where}.limit_ms", f"{got.limit_ms:g} ms, the limit is {limit} ms")
    if not at_most(got.achieved_ms, got.limit_ms, EXACT):
        text = f"{got.achieved_ms:g} ms were achieved, {got.limit_ms:g} ms are promised"
        yield Violation("replay_missed", f"{where}.achieved_ms", text)
    if got.attained < PROMISED.get(case.workload.slo.percentile, 0.0) - NEAREST:
        text = f"{100 * got.attained:.3g} % of requests within the limit are fewer than the percentile says"
        yield Violation("replay_missed", f"{where}.attained", text)
