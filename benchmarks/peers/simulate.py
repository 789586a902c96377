"""Other simulators: their requests replayed by the shipped event loop under their own rules.

The objective is the worst relative error of a percentile (p50, p90, p99 of the time to the first token, per
token and in all) against what the peer's simulator answered; the solution has all of them.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.peers.answer import Answer, Case
from benchmarks.peers.replays import chunked, distserve, splitwise

OBJECTIVES = ("error",)

RULES: dict[str, Any] = {
    "own step simulator": chunked,
    "DistServe simdistserve": distserve,
    "splitwise-sim": splitwise,
}


def solve(case: Case, objective: str, seconds: float) -> Answer:
    """Percentiles under the case's rules, and how far the worst one is off."""
    rules, known = RULES[case["simulator"]], case["known"]
    began = time.perf_counter()
    fleet = rules.replayed(case["problem"])
    times = rules.measured(fleet, fleet.run())
    took = time.perf_counter() - began
    expected = known.get("peer_result") or known["result"]
    found = {name: _percentile(times, name) for name in expected}
    error = max(abs(found[name] / value - 1) for name, value in expected.items())
    limit = known["tolerance_relative"]
    status = f"within {limit:.0%}" if error <= limit else f"beyond {limit:.0%}"
    return Answer(error, 0.0, status, found, took)


def _percentile(times: dict[str, Any], name: str) -> float:
    field, percent = name.rsplit("_p", 1)
    return float(np.nanpercentile(times[field], int(percent)))


def peer_value(case: Case) -> float | None:
    """What the peer answered is what is compared with."""
    return None
