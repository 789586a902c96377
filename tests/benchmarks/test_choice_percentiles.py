"""Replayed promises: the share of requests within limits and predicted times, of plans at a percentile."""

from __future__ import annotations

import pytest

from benchmarks.choice import percentiles
from benchmarks.choice.percentiles import Kept, asked, replayed, report
from benchmarks.choice.sound import Question

SMALL = Question(
    "0:0",
    "llama-3.1-8b",
    {"gpus": "1xL40S", "engine": "vllm", "percentile": "p90", "risk": 0.5, "ttft_ms": 900},
)


def test_every_question_promises_a_percentile_at_random_arrivals_and_the_median():
    every = [asked(0, number).options for number in range(30)]

    assert {o["percentile"] for o in every} == {"p50", "p90", "p95", "p99"}
    assert all(o["loop"] == "open" and o["risk"] == 0.5 for o in every)


def test_a_limit_that_binds_is_kept_by_the_share_promised(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(percentiles, "REQUESTS", 8_000)
    every = list(replayed(SMALL))
    found = {kept.limit: kept for kept in every if kept.routing == "random"}

    assert [kept.attained for kept in every if kept.routing == "planned"] == [
        kept.attained
        for kept in found.values()  # of one server
    ]
    assert found["tpot_ms"].binds
    assert found["tpot_ms"].promised == 0.9
    assert found["tpot_ms"].attained == pytest.approx(0.9, abs=0.06)
    assert found["tpot_ms"].within_predicted == pytest.approx(found["tpot_ms"].attained, abs=0.02)


def test_a_limit_broken_by_more_than_two_points_is_shown(monkeypatch: pytest.MonkeyPatch):
    kept = [Kept(SMALL, "tpot_ms", 0.9, attained, 0.9, True) for attained in (0.85, 0.89, 0.95)]
    monkeypatch.setattr(percentiles, "replayed", lambda question: kept)
    shown = report(1)

    assert "tpot_ms, any server: 0.850 of 0.9" in shown
    assert "0.890 of" not in shown
    assert "67%" in shown
