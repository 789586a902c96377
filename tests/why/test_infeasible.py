"""The nearest that can be had: a hint is what the quickest design reaches, no more and no less."""

from __future__ import annotations

import pytest

from cluster_configs.reading import from_gpus
from model_zoo import catalog
from planner import plan
from planner.errors import Infeasible, OutOfTime
from planner.inputs.options import Options
from planner.inputs.workload import Slo
from planner.question.asked import read
from planner.question.posed import pose
from planner.why import infeasible
from planner.why.infeasible import Tightest, loosened, tightest, too_slow

NEAR = Tightest(ttft_s=0.1, tpot_s=0.020, design="tp2 on h with vllm")


def posed(gpus: str, **load: float):
    asked = read(None, "llama-3.1-8b", gpus, "chat", load, {"engine": "vllm"})
    return pose(asked)[1]


def test_an_slo_that_is_met_has_nothing_to_loosen():
    assert loosened(NEAR, Slo(ttft_ms=200, tpot_ms=30)) == Slo(ttft_ms=200, tpot_ms=30)


def test_only_the_limit_that_is_missed_is_loosened():
    assert loosened(NEAR, Slo(ttft_ms=200, tpot_ms=10)) == Slo(ttft_ms=200, tpot_ms=20)


def test_limits_are_loosened_together_until_the_rate_is_carried():
    enough = loosened(NEAR, Slo(ttft_ms=1, tpot_ms=10), lambda slo: (slo.tpot_ms or 0) >= 27)

    assert enough == Slo(ttft_ms=141, tpot_ms=28.2)


def test_a_rate_that_no_slo_carries_has_no_looser_one():
    assert loosened(NEAR, Slo(tpot_ms=10), lambda _: False) is None


def test_what_is_missed_is_said_with_the_best_there_is_and_the_options_that_help():
    error = too_slow(NEAR, Slo(ttft_ms=50, tpot_ms=10))

    assert "TTFT 50 ms (best 100 ms) and TPOT 10 ms (best 20 ms)" in error.message
    assert error.hint == "--ttft-ms 100 --tpot-ms 20"


def test_what_is_proven_is_said_where_the_time_for_a_hint_is_over():
    def late(slo: Slo) -> bool:
        raise OutOfTime("over")

    error = too_slow(NEAR, Slo(ttft_ms=50, tpot_ms=30), late)

    assert "TTFT 50 ms (best 100 ms)" in error.message
    assert error.hint == "--ttft-ms 100, or more for the rate asked for"


def test_where_no_limit_is_too_loose_for_the_rate_the_rate_is_too_high():
    def never(slo: Slo) -> bool:
        return False

    def unlimited(slo: Slo) -> bool:
        return slo.ttft_ms is None

    tight = Slo(ttft_ms=50, tpot_ms=30)
    assert too_slow(NEAR, tight, never).hint == "--ttft-ms 100, and a lower --rate or more nodes"
    assert too_slow(NEAR, tight, unlimited).hint == "--ttft-ms 100, or more for the rate asked for"


def test_a_nodes_power_cap_under_which_no_speed_is_known_is_named_and_what_it_must_be(tmp_path):
    """A cap that was meant for one GPU is the whole node's: half of 8 x 700 W is the least."""

    def cluster(watts):
        path = tmp_path / "capped.yaml"
        path.write_text(f"nodes: [{{device: h100-sxm, power_cap_watts: {watts}}}]", encoding="utf-8")
        return path

    with pytest.raises(Infeasible, match="the power cap of `h100-sxm`: 600 W for the 8 x h100-sxm") as told:
        plan(cluster(600), "llama-3.1-8b", engine="vllm", explain=False)
    assert "`power_cap_watts: 2800` or more" in told.value.hint
    assert plan(cluster(2800), "llama-3.1-8b", engine="vllm", explain=False).replicas


def test_no_promise_is_never_missed():
    assert "TTFT" not in too_slow(NEAR, Slo(ttft_ms=None, tpot_ms=10)).message


def test_the_tightest_is_quicker_on_more_gpus():
    slo = Slo(ttft_ms=1, tpot_ms=1)
    one, four = (tightest(posed(f"{n}xH100"), slo) for n in (1, 4))

    assert one
    assert four
    assert four.tpot_s < 0.6 * one.tpot_s
    assert four.ttft_s < one.ttft_s


def test_the_tightest_stands_on_the_nodes_there_are():
    near = tightest(posed("1xH100"), Slo(ttft_ms=1, tpot_ms=1))

    assert near
    assert near.design.startswith("tp1 ")  # designs of one node more are in the pool, to be priced


def test_a_limit_that_was_asked_for_comes_before_one_that_may_be_relaxed():
    pool, slo = posed("4xH100"), Slo(ttft_ms=1e-3, tpot_ms=1e-3)
    quick_start, quick_steps = (tightest(pool, slo, {name}) for name in ("ttft_ms", "tpot_ms"))

    assert quick_start
    assert quick_steps
    assert quick_start.ttft_s <= quick_steps.ttft_s
    assert quick_steps.tpot_s <= quick_start.tpot_s


def test_what_finds_no_room_says_how_much_is_missing_and_what_has_room():
    with pytest.raises(Infeasible, match=r"short on each GPU") as caught:
        pose(read(None, "llama-3.1-70b", "1xH100", "chat", {}, {}))

    assert "--gpus 2xh100-sxm" in (caught.value.hint or "")


def test_what_no_engine_runs_says_why():
    card, _ = catalog.find("llama-3.1-8b-fp8")
    pool = posed("1xH100")
    none = type(pool)(candidates=(), made={})
    error = infeasible.does_not_fit(from_gpus("1xM3-Ultra"), card, Options(), none)

    assert "no engine serves llama-3.1-8b-fp8 in fp8" in error.message
    assert error.hint == "--precision bf16 --kv-precision bf16"
