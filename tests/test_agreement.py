"""Plans and `predict` are one model of a server: what a plan says of its replicas is what their rows are
answered. `python -m benchmarks.agreement` asks of many more plans."""

from __future__ import annotations

import pytest

from benchmarks.agreement import MOST, Problem, agreement, planned, said

NO_LIMITS = {"ttft_ms": "none", "tpot_ms": "none"}
MIXED = Problem("8xH100", "llama-3.1-8b", {"engine": "sglang"})
SPLIT = Problem("8xH100", "llama-3.1-70b", {"ttft_ms": 500, "tpot_ms": 20})
RANKS = Problem("8xH200", "qwen3-30b-a3b", {"workload": "reasoning", "engine": "trtllm"})
RESERVED = Problem("8xL40S", "llama-3.1-70b", {**NO_LIMITS, "engine": "trtllm"})
PIPED = Problem(
    "8xL40S", "llama-3.1-70b", {**NO_LIMITS, "engine": "trtllm", "rate": 4.0, "percentile": "p95"}
)
UNLIKE = Problem("4xL4,4xT4,4xA10", "qwen3-32b", NO_LIMITS)


PROBLEMS = {
    "mixed": MIXED,
    "split": SPLIT,
    "attention dp": RANKS,
    "reserved": RESERVED,
    "pipeline": PIPED,
    "unlike stages": UNLIKE,
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_plan_says_of_its_replicas_what_predict_does(name):
    found = agreement(PROBLEMS[name])

    assert found.differences
    assert not found.unsaid
    # `predict` counts places by the mean request, plans less the part of one that just does not fit
    assert found.worst[0].size <= (0.08 if name == "attention dp" else MOST), found.worst[0]


def test_these_plans_are_what_they_stand_for():
    """One of each: roles, attention dp, an engine that reserves, pipelines with and without a rate."""
    made = {name: planned(problem) for name, problem in PROBLEMS.items()}
    designs = {name: [g.candidate.design for g in groups] for name, (_, groups) in made.items()}
    rows = {name: [said(asked, g) for g in groups] for name, (asked, groups) in made.items()}

    assert [row["role"] for row in rows["mixed"]] == ["mixed"]
    assert {row["role"] for row in rows["split"]} == {"prefill", "decode"}
    assert any(d.attn_dp > 1 and d.ep > 1 for d in designs["attention dp"])
    assert all(row["engine"] == "trtllm" for row in rows["reserved"])
    assert any(d.pp > 1 for d in designs["pipeline"])
    assert all("rate_rps" in row and row["percentile"] == "p95" for row in rows["pipeline"])
    assert any("stages" in row for row in rows["unlike stages"])
