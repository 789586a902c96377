"""Servers that only decode take in what their caches hold.

A request that finds no room there has been computed already: it waits on the server that prefilled it, and
TTFT leaves that out; one that is put back is computed again by a server that only decodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.check.case import Case
from planner.check.violation import Violation

MOST_WAITING = 0.2
"""Share of requests that may find a full cache. Closed loops fill caches until a sixth of them do."""

MOST_PREEMPTED = 0.03
"""Share of requests that may be computed again: plans allow a hundredth, by a law for many."""

MANY = 20
"""Sequences of a rank from which on shares of few tell: one of three more or less is a third of them."""


def violations(case: Case) -> Iterator[Violation]:
    """Decode servers whose stated shares, which `cache` checks, are those of a cache that is too small."""
    for index, replica in enumerate(case.plan.replicas):
        cache = replica.cache
        if replica.role != "decode" or cache is None or cache.sequences < MANY * replica.attn_dp:
            continue
        if cache.delayed > MOST_WAITING or cache.preempted > MOST_PREEMPTED:
            text = f"{cache.delayed:.3g} of requests find no room and {cache.preempted:.3g} lose theirs"
            yield Violation("cache_overfull", f"replicas[{index}].cache", f"{text}, on servers that decode")
