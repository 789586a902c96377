"""Answers of a few tokens: prompts fill the server's time, and it decodes for a small part of it."""

from __future__ import annotations

import pytest

from planner import plan
from planner.candidates.mix import Mix
from planner.check import check
from planner.errors import Infeasible
from planner.inputs.workload import Bucket, Slo, Workload

ASKED = {"gpus": "1xh100", "model": "llama-3.1-8b", "isl": 8000, "osl": 2, "engine": "vllm"}


def test_limits_that_one_request_at_a_time_keeps_are_kept():
    """One sequence decoding at all times would mean prompts without a break."""
    made = plan(None, **ASKED, ttft_ms=350, tpot_ms=60, explain=False)

    assert check(made) == []
    assert made.predicted.tpot_ms.value <= 60 * (1 + 1e-9)
    assert made.replicas[0].cache.sequences < 1


@pytest.mark.parametrize("osl", [2, 4, 32])
def test_the_best_that_is_named_can_be_had(osl: int):
    asked = ASKED | {"osl": osl}
    with pytest.raises(Infeasible) as caught:
        plan(None, **asked, ttft_ms=20, tpot_ms=1)
    words = (caught.value.hint or "").split()
    limits = dict(zip(words[::2], map(float, words[1::2]), strict=True))

    assert (
        plan(None, **asked, ttft_ms=limits["--ttft-ms"], tpot_ms=limits["--tpot-ms"]).predicted.rps.value > 0
    )


def test_a_prompt_beyond_the_room_of_one_card_goes_elsewhere():
    """An L4 has room for 50,000 tokens of this model beside its weights."""
    asked = {"isl": 100_000, "osl": 50, "ttft_ms": "none", "tpot_ms": "none", "explain": False}
    made = plan(None, "llama-3.1-8b", gpus="1xl4,1xh100", **asked)

    assert check(made) == []
    assert all(len(replica.stages) > 1 or replica.stages[0].device != "l4" for replica in made.replicas)


def test_a_cache_is_counted_by_the_mean_of_what_is_computed():
    """Of 128 tokens 1.28 are computed on average: a prompt of one would hold a tenth less with half an answer
    of two, and `check` counts by the mean."""
    short = Workload(buckets=[Bucket(isl=128, osl=2)], prefix_hit=0.99, slo=Slo(ttft_ms=None, tpot_ms=60))
    made = plan(None, "llama-3.1-8b", gpus="1xa40", workload=short, engine="sglang", explain=False)

    assert check(made) == []
    assert Mix.of(short).new == pytest.approx([1.28])
    assert Mix.of(short).own == pytest.approx([1.28])
