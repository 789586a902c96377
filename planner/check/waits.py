"""Requests that come at random wait where all places of a server are taken: TTFT is told with that."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, inf

from planner.check.cache import RESERVING, all_taken
from planner.check.case import Case, Load
from planner.check.queueing import own_tokens
from planner.check.violation import Violation, at_most
from planner.plans.schema import Replica

LEAST = 0.5
"""Share of what we count by our own law that a plan must tell at least: one law takes steps as they are at
the plan's load, another as they are with all places taken."""

MOST_PLACES = 1e6
"""That are counted: of so many nobody waits."""


def violations(case: Case) -> Iterator[Violation]:
    """A mean TTFT below half of what the prompts take and the wait for a place: by Erlang's formula for all
    servers of a group together (of more than a few places next to nobody waits), halved for answers that all
    last as long (M/D/c)."""
    serving = [case.groups[name] for name, load in case.loads.items() if load.rps]
    random = case.workload.loop == "open" and case.workload.slo.percentile == "mean"
    plain = all(r.role == "mixed" and not case.measured(r) for r in serving) and not case.plan.chains
    if not (serving and random and plain):
        return
    first_s = sum(case.loads[r.id].rps * (r.step.prefill_s + wait_s(case, r)) for r in serving)
    first_ms = 1e3 * first_s / sum(case.loads[r.id].rps for r in serving)
    told = case.plan.predicted.ttft_ms.value
    if not at_most(LEAST * first_ms, told):
        text = f"{told:.5g} ms, but prompts and the wait for a place take some {first_ms:.5g} ms"
        yield Violation("ttft_below_wait", "predicted.ttft_ms", text)


def wait_s(case: Case, replica: Replica) -> float:
    """Mean seconds that a request waits for one of the places of its group."""
    load = case.loads[replica.id]
    stay_s = replica.step.prefill_s + load.decode_tok_per_s * replica.token_s / load.rps
    places = floor(min(replica.count * _places(case, replica, load), MOST_PLACES))
    busy = load.rps * stay_s
    if busy >= places:
        return inf
    return all_taken(places, busy) * stay_s / (places - busy) / 2


def _places(case: Case, replica: Replica, load: Load) -> float:
    """Requests in the batch and the cache of one replica, at most: of those that come the mean one."""
    rate, held = 0.0, 0.0
    for bucket, own in load.buckets:
        longest = max(case.workload.max_osl or 0, *(b.osl for b in case.workload.buckets))
        grown = longest if replica.engine in RESERVING else bucket.osl / 2
        rate, held = rate + own, held + own * (own_tokens(case, replica, bucket) + grown)
    fits = replica.kv_tokens / (held / rate)
    fits = replica.attn_dp * floor(fits / replica.attn_dp) if replica.engine in RESERVING else fits + 1
    return max(min(fits, float(replica.max_batch)), 1.0)
