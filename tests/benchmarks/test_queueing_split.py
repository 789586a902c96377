"""Prefill and decode servers in a closed loop: by hand, by limits, and against the replay."""

import numpy as np
import pytest

from benchmarks.queueing_split import Pool, Split, closed_split, ranks_as_one
from benchmarks.replays.servers import Settings, Transfer, replay_pair
from planner.designs.shape import Floats, StepTimes
from planner.simulate.requests import Requests

ISL, OSL = 1000.0, 101.0


def step(t0: float, token: float = 0.0, sequence: float = 0.0, context: float = 0.0) -> StepTimes:
    return StepTimes(*(np.array([x]) for x in (t0, token, 0.0, sequence, context, 1.0)))


PREFILL = step(0.02, token=1e-4)  # a prompt takes 0.12 s alone, 0.11 s beside another
DECODE = step(0.02, sequence=1e-3)  # 10 sequences step in 30 ms


def split(
    concurrency: float,
    prefillers: float = 1,
    decoders: float = 1,
    budget: float = 2 * ISL,
    places: float = np.inf,
    handoff_s: float = 0.0,
    osl: float = OSL,
) -> Split:
    pools = Pool(PREFILL, prefillers, budget), Pool(DECODE, decoders, places)
    one = np.ones(1)
    return closed_split(*pools, one * ISL, one * ISL, one * osl, one, concurrency, handoff_s)


def test_a_lone_request_meets_nobody():
    found = split(1, prefillers=3, decoders=2, handoff_s=0.005)

    assert found.ttft_s[0, 0] == pytest.approx(0.12 + 0.005)
    assert found.tpot_s[0] == pytest.approx(0.021)
    assert found.rate[0] == pytest.approx(1 / (0.125 + 100 * 0.021))
    assert found.first_ttft_s[0] == pytest.approx(0.125)


def test_full_prefill_servers_set_the_rate_and_the_others_wait():
    """By hand: two prompts a step of 0.22 s, 9.09 a second; 9.09 · 100 sequences at T = 20 ms / (1 - 9.09 ·
    0.1 / 2) decode."""
    found = split(1000, decoders=2)

    rate, tpot = 2 / 0.22, 0.02 / (1 - 0.1 / 0.22)
    assert found.rate[0] == pytest.approx(rate, rel=1e-3)
    assert found.tpot_s[0] == pytest.approx(tpot, rel=1e-3)
    assert found.ttft_s[0, 0] == pytest.approx(1000 / rate - 100 * tpot, rel=1e-3)
    assert found.prefill_used[0] == pytest.approx(1, rel=1e-3)


def test_full_decode_places_set_the_rate_and_the_others_wait():
    """By hand: 10 places, steps of 30 ms, so 3.33 requests a second; of 40 in flight 30 are not decoding."""
    found = split(40, places=10)

    assert found.rate[0] == pytest.approx(10 / (100 * 0.03), rel=1e-3)
    assert found.tpot_s[0] == pytest.approx(0.03, rel=1e-3)
    assert found.sequences[0] == pytest.approx(10, rel=1e-3)
    assert found.ttft_s[0, 0] == pytest.approx(30 / found.rate[0], rel=1e-3)
    assert found.decode_used[0] == pytest.approx(1, rel=1e-3)


def test_all_prompts_at_once_come_out_step_by_step():
    """Five prompts, two a step: 0.22, 0.22, 0.44, 0.44, 0.56 s."""
    assert split(5).first_ttft_s[0] == pytest.approx((2 * 0.22 + 2 * 0.44 + 0.56) / 5)
    assert split(5, prefillers=5).first_ttft_s[0] == pytest.approx(0.12)


@pytest.mark.parametrize("concurrency", [1, 3, 10, 40, 300, 5000])
@pytest.mark.parametrize("places", [4.0, np.inf])
def test_what_is_in_flight_is_what_was_asked_for(concurrency: float, places: float):
    found = split(concurrency, prefillers=2, decoders=3, places=places, handoff_s=0.01)

    assert found.rate * (found.ttft_s[:, 0] + 100 * found.tpot_s) == pytest.approx(concurrency, rel=1e-6)
    assert max(found.prefill_used[0], found.decode_used[0]) <= 1


def test_more_in_flight_never_serves_less():
    rates = [split(n, places=30).rate[0] for n in (1, 2, 4, 8, 16, 32, 64, 1000)]

    assert rates == sorted(rates)


def test_buckets_and_pairs_are_computed_side_by_side():
    """Two pairs of servers, a short and a long bucket: the same as each alone, and the long prompt takes
    longer."""
    pools = Pool(PREFILL, np.array([1.0, 2.0]), ISL), Pool(DECODE, np.array([1.0, 2.0]), np.inf)
    isl, osl, share = np.array([200.0, 1000.0]), np.array([51.0, 201.0]), np.array([0.5, 0.5])
    both = closed_split(*pools, isl, isl, osl, share, np.array([10.0, 20.0]))
    one = closed_split(Pool(PREFILL, 1, ISL), Pool(DECODE, 1, np.inf), isl, isl, osl, share, 10.0)

    assert both.ttft_s.shape == (2, 2)
    assert both.ttft_s[0] == pytest.approx(one.ttft_s[0])
    assert (both.ttft_s[:, 1] > both.ttft_s[:, 0]).all()
    assert both.rate[1] > 1.9 * both.rate[0]


def test_a_prefill_server_with_one_prompt_a_step_shares_nothing():
    alone = ranks_as_one(*(np.array([x]) for x in (0.3, 0.3, 1.0, 1000.0)))

    assert float(alone.t0_s[0] + 2000 * alone.prefill_s_per_token[0]) == pytest.approx(0.6, rel=1e-4)


REPLAYED = [
    (1, 1, 4, 41),
    (1, 2, 40, 401),
    (2, 4, 300, 801),
    (1, 4, 20, 101),
    (1, 4, 26, 101),
    (1, 4, 60, 101),
    (1, 8, 60, 201),
    (1, 16, 100, 401),
    (4, 16, 80, 101),
    (4, 16, 100, 101),
    (4, 16, 130, 101),
    (10, 16, 200, 101),
]
"""Prefill servers, decode servers, concurrency, output tokens: prefill servers 14 to 100 % full."""


@pytest.mark.parametrize("setting", REPLAYED, ids=str)
def test_means_agree_with_the_replay(setting: tuple[int, int, int, int]):
    """Outputs between 0.8 and 1.2 of `osl`; the replay's first token is the prefill server's, and a sequence
    waits half a step to join, which it counts to TPOT and the formula to the hand-over."""
    prefillers, decoders, n, osl = setting
    found = split(n, prefillers, decoders, handoff_s=0.01, osl=osl)
    joins = float(found.tpot_s[0]) / 2
    found = split(n, prefillers, decoders, handoff_s=0.01 + joins, osl=osl)
    ttft, tpot = replayed(prefillers, decoders, n, osl)

    assert found.ttft_s[0, 0] - 0.01 - joins == pytest.approx(ttft, rel=0.23)
    assert found.tpot_s[0] == pytest.approx(tpot - (0.01 + joins) / (osl - 1), rel=0.02)


def replayed(prefillers: int, decoders: int, n: int, osl: int) -> tuple[float, float]:
    """Mean TTFT and TPOT in the steady part."""
    count = max(1500, 12 * n)
    rng = np.random.default_rng(3)
    made: Floats = np.round(osl * rng.uniform(0.8, 1.2, count))
    result = replay_pair(
        (PREFILL, Settings(int(2 * ISL), replicas=prefillers, concurrency=n, routing="least_requests")),
        (DECODE, Settings(10**9, replicas=decoders, routing="least_requests")),
        Requests(np.zeros(count), np.full(count, ISL), made),
        Transfer(0.01, 0.0, 1.0),
    )
    begin, end = np.quantile(result.end_s, [0.25, 0.9])
    steady = (result.end_s > begin) & (result.end_s <= end)
    return float(result.ttft_s[steady].mean()), float(result.tpot_s[steady].mean())
