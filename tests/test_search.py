"""What the search proves, against every fleet of one design: judged by the one model of a server at the load
that it would have, none is better than the bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planner.candidates.points import Role, at_rate, draw
from planner.cost.power import idle_watts
from planner.plans.found import Found
from planner.search import Question
from tests.explain.solved import solved

ASKED = {
    "short answers": {"gpus": "2xH100", "model": "llama-3.1-8b", "isl": 4000, "osl": 20},
    "chat": {"gpus": "4xA100", "model": "qwen3-32b"},
    "experts": {"gpus": "8xH100", "model": "gpt-oss-120b"},
}


def fleets(question: Question, found: Found) -> Iterator[tuple[str, float]]:
    """Every design by itself on 1, 2, 3 … replicas that share the traffic and keep all limits: its name and
    what it takes of the objective."""
    (node,) = question.cluster.classes
    rate = question.traffic.rate_rps
    role: Role = "mixed"
    for s in found.pool.setups.values():
        index = s.fitting
        d, osl = s.designs.take(index), s.mix.osl[0]
        for count in range(1, node.gpus + 1):
            at = at_rate(s, index, rate / count / d.attn_dp, role)
            kept = at.meets[:, 0] & (count * d.gpus <= node.gpus) & (at.utilisation <= 1)
            idle = (node.gpus - count * d.gpus) * idle_watts(node.device.tdp_watts)
            watts = count * draw(s, at, role) + idle
            seconds = at.ttft_s[:, 0] + osl * at.tpot_s[:, 0]
            for i in np.flatnonzero(kept):
                name = f"{count} x tp{d.tp[i]} pp{d.pp[i]} dp{d.attn_dp[i]} ep{d.ep[i]}"
                yield name, float((watts if question.objective == "energy" else seconds)[i])


@pytest.mark.parametrize("rate", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("objective", ["latency", "energy"])
@pytest.mark.parametrize("case", ASKED)
def test_no_fleet_of_one_design_is_better_than_the_bound(case, objective, rate):
    _, question, found = solved(**ASKED[case], rate=rate, objective=objective)
    best = dict(fleets(question, found))

    assert best
    assert min(best.values()) >= found.solution.bound * (1 - 1e-6), min(best, key=best.__getitem__)
