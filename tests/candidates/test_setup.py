"""The mix of requests, the promise and what it is cautious by, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.candidates.mix import Mix, Promise
from planner.candidates.points import at_rate, batched
from planner.inputs.workload import Bucket, Slo, Workload
from tests.candidates.samples import CHAT, TWO, ask, one_setup

EVERY = np.arange(3)


def test_a_cache_that_finds_a_quarter_leaves_three_quarters_to_compute():
    mix = Mix.of(TWO.model_copy(update={"prefix_hit": 0.25}))

    assert mix.new.tolist() == [150, 4500]
    assert mix.own.tolist() == [150, 4500]
    assert mix.prompt == pytest.approx(0.7 * 150 + 0.3 * 4500)


def test_contexts_are_weighed_by_the_steps_of_their_answers():
    """By hand: 49 steps of 7 at 225 tokens, 399 of 3 at 6,200."""
    mix = Mix.of(TWO)

    assert mix.steps == pytest.approx(0.7 * 49 + 0.3 * 399)
    assert mix.context == pytest.approx((0.7 * 49 * 225 + 0.3 * 399 * 6200) / (0.7 * 49 + 0.3 * 399))
    assert Mix.of(TWO, emitted=2.0).steps == pytest.approx(mix.steps / 2)


def test_answers_of_one_token_have_prompts_for_their_context():
    mix = Mix.of(Workload(buckets=[Bucket(isl=300, osl=1), Bucket(isl=900, osl=1, share=3)]))

    assert (mix.steps, mix.context) == (0, pytest.approx(750))


def test_room_is_reserved_for_the_longest_answer():
    assert Mix.of(TWO).held.tolist() == [50, 400]
    assert Mix.of(TWO.model_copy(update={"max_osl": 300})).held.tolist() == [300, 400]


def test_limits_are_seconds_at_the_percentile_of_either_loop():
    slo = Slo(ttft_ms=2000, tpot_ms=None, percentile="p95")

    assert Promise.of(slo, "open") == Promise(2.0, np.inf, "p95", "open")
    assert Promise.of(slo, "closed").percentile == "p95"


def cautious(z):
    """Setups that are as sure as `z` standard deviations, with unlike errors of TTFT and TPOT."""
    return replace(one_setup(ask()), risk_z=z)


def test_who_wants_to_be_sure_counts_with_longer_times():
    """At z standard deviations of the logarithm, exp(z sigma); for the median as predicted."""
    s, sure, daring = cautious(0.0), cautious(1.28), cautious(-1.28)
    sigmas = s.model.sigmas(s.designs)

    assert (s.caution("mixed") == 1).all()
    assert np.log(sure.caution("mixed")) == pytest.approx(1.28 * sigmas)
    assert (sure.caution("mixed") > 1).all()
    assert (daring.caution("mixed") < 1).all()


def test_each_limit_is_exceeded_by_its_own_caution():
    """TTFT by the first row of factors, TPOT by the second, and seconds are told without any."""
    s, plain = cautious(1.28), cautious(0.0)
    points, own = (batched(x, EVERY, np.full(3, 20.0), "mixed") for x in (s, plain))

    assert not np.allclose(*s.caution("mixed"))
    assert points.ttft_s == pytest.approx(own.ttft_s)
    assert points.tpot_s == pytest.approx(own.tpot_s)
    late, slow = s.caution("mixed")[:, EVERY, None] * np.stack([own.ttft_s / 2.0, own.tpot_s / 0.05]) - 1
    assert points.late == pytest.approx(late)
    assert points.slow == pytest.approx(slow)


def test_a_side_of_a_pair_answers_for_its_own_limit_alone():
    s = one_setup(ask())
    decode = batched(s, EVERY, np.full(3, 20.0), "decode")
    prefill = at_rate(s, EVERY, np.full(3, 1.0), "prefill")

    assert (decode.late == -1).all()
    assert (prefill.slow == -1).all()
    assert (prefill.late > -1).all()


def test_the_rate_is_one_at_which_the_batch_makes_its_steps():
    """Little's law: rate x steps of a request x seconds of a step = sequences."""
    s = one_setup(ask(workload=CHAT))
    p = batched(s, EVERY, np.array([1.0, 10.0, 50.0]), "mixed")
    step_s = p.step.t0_s / (1 - p.load)

    assert p.rate * 199 * step_s == pytest.approx(p.sequences)
    again = at_rate(s, EVERY, p.rate, "mixed")
    assert again.sequences == pytest.approx(p.sequences, rel=1e-3)
    assert again.tpot_s == pytest.approx(p.tpot_s, rel=1e-3)


def test_a_design_without_room_for_a_request_is_not_offered():
    s = one_setup(ask(), gpus="1xH100")
    held = float(s.model.cache_bytes(s.designs, np.array([1200.0]), s.memory.stage)[0, 0])
    prompt = float(s.model.cache_bytes(s.designs, np.array([1000.0]), s.memory.stage)[0, 0])

    def holding(size):
        return replace(s, memory=replace(s.memory, kv_bytes=np.full(len(s.designs), size))).holds

    assert holding(held)["mixed"][0, 0]
    assert not holding(0.99 * held)["mixed"][0, 0]
    assert holding(prompt)["prefill"][0, 0]
    assert not holding(0.99 * prompt)["prefill"][0, 0]
