"""The pieces of the queueing formulas, each against a queue played step by step or a count by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.designs.shape import Floats, StepTimes
from planner.queueing.closed import Ring, at_rate, rate_of
from planner.queueing.line import line, moments, soft_ceil, softmin
from planner.queueing.load import Limits, Load, Parts, column
from planner.queueing.places import Waiting
from planner.queueing.prefill import step_shares, ttft_s, utilisation
from planner.queueing.tail import ttft_quantile
from planner.queueing.tpot import averaged, behind, growth, mean_tpot_s

T0, PER_TOKEN, OWN = 0.01, 1e-4, 2e-4
SMALL = StepTimes(*(np.array([x]) for x in (T0, PER_TOKEN, 0.0, OWN, 0.0, 1.0)))
"""Steps of 10 ms, 0.1 ms a prompt token, 0.2 ms a sequence; cache is free to read."""
POSITIVE = st.floats(1e-6, 1e6)


def parts(new: Floats | list[float], osl: Floats | list[float], role: str = "mixed") -> Parts:
    return Parts.of(SMALL, np.atleast_2d(new), np.atleast_2d(new), np.atleast_2d(osl), role)


def load(p: Parts, rate: list[float], budget: float = 1e9) -> Load:
    return Load.of(p, np.atleast_2d(rate), Limits.of(budget, np.inf, np.inf))


@given(a=POSITIVE, b=POSITIVE)
def test_a_smooth_minimum_is_below_both_and_at_most_a_sixth_below(a: float, b: float) -> None:
    found = float(softmin(np.array(a), np.array(b)))

    assert found <= min(a, b)
    assert found >= min(a, b) * 2**-0.25 * (1 - 1e-12)
    assert found == float(softmin(np.array(b), np.array(a)))


def test_chunks_are_whole_but_for_the_width_of_a_jump() -> None:
    x = np.array([0.3, 1.0, 1.05, 1.1, 1.7, 2.0])

    assert soft_ceil(x, np.array(0.1)) == pytest.approx([1.0, 1.0, 1.5, 2.0, 2.0, 2.0])


def played(rate: float, prompt_s: float, full_s: float, steps: int = 60_000) -> tuple[float, float, float]:
    """E[m], E[m²], E[R] of a line of prompts without decodes, step by step at a fixed seed."""
    random = np.random.default_rng(0)
    queue, sums = 0.0, np.zeros(3)
    for _ in range(steps):
        served = min(queue, full_s)
        queue -= served
        sums += (served, served**2, queue)
        queue += prompt_s * random.poisson(rate * (T0 + served))
    return tuple(sums / steps)  # type: ignore[return-value]


@pytest.mark.parametrize(("rate", "budget"), [(4.0, 4000), (12.0, 4000), (12.0, 700), (14.0, 700)])
def test_prompts_of_a_step_have_the_moments_of_a_line_that_is_played(rate: float, budget: float) -> None:
    """Prompts of 500 tokens, 50 ms; steps hold 8 of them, or 1.4."""
    of = load(parts([500.0], [1.0]), [rate], budget)
    found = moments(of, of.sequences)
    mean, square, left = played(rate, 0.05, PER_TOKEN * budget)

    assert of.prompts_per_step_s[0, 0] == pytest.approx(mean, rel=0.05)
    assert found.served2[0, 0] == pytest.approx(square, rel=0.15)
    assert found.left[0, 0] == pytest.approx(left, rel=0.25, abs=0.1 * mean)


def test_where_nobody_came_before_a_prompt_waits_for_the_step_that_runs() -> None:
    """Half a step, then its own: 10 ms and 50 ms of prompt."""
    p = parts([500.0], [1.0])
    of = load(p, [1e-9])
    met = line(of, p.drain_s, moments(of, of.sequences))

    assert met.ttft_s[0, 0] == pytest.approx(T0 / 2 + T0 + 0.05, rel=1e-4)
    assert met.ahead[0, 0] == pytest.approx(0.0, abs=1e-6)
    assert met.steps[0, 0] == met.chunks[0, 0] == pytest.approx(1.0)


def test_a_prompt_of_two_and_a_half_budgets_takes_three_steps() -> None:
    p = parts([500.0], [1.0])
    of = load(p, [1e-9], budget=200)

    assert line(of, p.drain_s, moments(of, of.sequences)).chunks[0, 0] == pytest.approx(3.0)


@given(rate=st.floats(0.1, 19.0), new=st.floats(10.0, 2000.0), osl=st.floats(1.0, 400.0))
def test_as_many_are_inside_a_loop_as_wait_and_make_tokens(rate: float, new: float, osl: float) -> None:
    """Little's law, and more where a token is no shorter than a step without prompts."""
    p = parts([new], [osl])
    rate /= float(load(p, [1.0]).utilisation[0, 0]) * 20
    of = load(p, [rate])
    met = at_rate(p, of)

    assert met.inside[0, 0] >= (rate * met.ttft_s[0, 0] + met.sequences[0, 0]) * (1 - 1e-9)


def test_more_requests_mean_more_before_a_prompt() -> None:
    p = parts([500.0], [100.0])
    loads = [load(p, [rate], 2000) for rate in (0.5, 2.0, 6.0)]
    found = [line(of, p.drain_s, moments(of, of.sequences)) for of in loads]

    for less, more in pairwise(found):
        assert less.ahead[0, 0] < more.ahead[0, 0]
        assert less.ttft_s[0, 0] < more.ttft_s[0, 0]
        assert less.moments.left[0, 0] <= more.moments.left[0, 0]


@pytest.mark.parametrize("x", [0.2, 1.0, 5.0, 40.0])
def test_the_variance_of_a_mean_is_the_double_integral_of_its_memory(x: float) -> None:
    """Of exp(-|s - t|) over s and t in (0, x), by summing over a grid."""
    t = (np.arange(800) + 0.5) * x / 800
    grid = np.exp(-np.abs(t[:, None] - t[None, :])).mean()

    assert float(averaged(np.array(x))) == pytest.approx(grid, rel=2e-3)


def test_arrivals_that_a_request_causes_grow_by_the_share_of_steps_that_decodes_make() -> None:
    """One bucket: rho_d / (1 - rho_p), by hand 1.0 x 99 x 0.2 ms and 1.0 x 50 ms."""
    of = load(parts([500.0], [100.0]), [1.0])

    assert growth(of)[0, 0] == pytest.approx(99 * OWN / (1 - 0.05))
    assert growth(of) == pytest.approx(of.feedback)


def test_what_grows_counts_other_buckets_only_as_long_as_they_overlap() -> None:
    """Requests of 10 steps beside those of 100: of the long one's life a tenth, of the short one's all."""
    of = load(parts([1.0, 1.0], [11.0, 101.0], "decode"), [5.0, 5.0])
    short, long = growth(of)[0]

    assert short == pytest.approx((5 + 5) * OWN * 10, rel=1e-6)
    assert long == pytest.approx((5 * 0.1 + 5) * OWN * 100, rel=1e-6)


def test_without_prompts_a_request_finds_the_mean_step_and_adds_itself() -> None:
    """Exact: (t0 + own) / (1 - rho) of processor sharing."""
    p = parts([1.0], [201.0], "decode")
    for rate in (1.0, 10.0, 20.0):
        of = load(p, [rate])
        met = line(of, p.drain_s, moments(of, of.sequences))
        rho = rate * 200 * OWN
        assert mean_tpot_s(of, met, behind(of, met))[0, 0] == pytest.approx((T0 + OWN) / (1 - rho), rel=1e-5)


def test_a_line_left_behind_is_caught_up_within_what_steps_can_carry() -> None:
    p = parts([500.0], [100.0])
    for rate in (0.5, 3.0, 8.0):
        of = load(p, [rate], 2000)
        left = behind(of, line(of, p.drain_s, moments(of, of.sequences)))
        assert (left.free <= left.queued * (1 + 1e-9)).all() or rate < 1
        assert abs(left.gain[0, 0]) <= left.reach[0, 0] / (1 - of.rho_p[0, 0])
        assert 0 <= left.emerged[0, 0] <= 1


def test_a_loop_of_sequences_makes_the_rate_counted_by_hand() -> None:
    """16 in flight, 100 steps of 10 ms + 16 x 0.2 ms."""
    p = parts([1.0], [101.0], "decode")
    everything = Limits.of(np.inf, np.inf, np.inf)
    ring = Ring(column(16.0), column(1e9), column(0.5), column(0.0))

    rate = rate_of(p, np.ones((1, 1)), ring, everything)

    assert rate[0, 0] == pytest.approx(16 / (100 * (T0 + 16 * OWN)))
    met = at_rate(p, Load.of(p, rate, everything))
    assert met.inside[0, 0] == pytest.approx(16)
    assert met.tpot_s[0, 0] == pytest.approx(T0 + 16 * OWN)


@pytest.mark.parametrize(("wanted", "places", "beside"), [(20, 1e9, 0.0), (20, 1e9, 0.7), (64, 12, 0.0)])
def test_a_loop_is_as_fast_as_its_requests_its_places_and_the_time_beside_it_let_it(
    wanted: float, places: float, beside: float
) -> None:
    """M + X b = N where places are free; where they bind, decoding sequences and half of each prompt fill
    them."""
    p = parts([300.0], [101.0])
    everything = Limits.of(4096, np.inf, np.inf)
    ring = Ring(column(wanted), column(places), column(0.5), column(beside))
    rate = rate_of(p, np.ones((1, 1)), ring, everything)
    met = at_rate(p, Load.of(p, rate, everything))
    used = (met.sequences + 0.5 * met.work)[0, 0]

    if places < wanted:
        assert used == pytest.approx(places)
        assert met.inside[0, 0] < wanted
    else:
        assert (met.inside + rate * beside)[0, 0] == pytest.approx(wanted)


def test_steps_of_a_prefill_server_hold_whole_prompts() -> None:
    """By hand: four of 500 in 2,048 tokens; one of 3,000; one of 1,025, as a second does not fit."""
    budget, one = column(2048.0), np.ones((1, 1))

    for new, share in ((500.0, 1 / 4), (3000.0, 1.0), (1025.0, 1.0), (1024.0, 1 / 2)):
        assert step_shares(parts([new], [1.0], "prefill"), one, budget)[0, 0] == pytest.approx(share)


def test_prompts_of_a_mix_share_the_budget_less_half_of_the_one_that_did_not_fit() -> None:
    """Equal rates of 400 and 1,200 tokens: the next prompt is, by tokens, 1,000 long, so 1,500 are used."""
    p = parts([400.0, 1200.0], [1.0, 1.0], "prefill")
    shares = step_shares(p, np.array([[0.5, 0.5]]), column(2000.0))

    assert shares[0] == pytest.approx([400 / 1500, 1200 / 1500])
    used = utilisation(p, np.array([[2.0, 2.0]]), column(2000.0))
    assert used[0, 0] == pytest.approx(2 * (0.04 + T0 * 400 / 1500) + 2 * (0.12 + T0 * 1200 / 1500))


def test_a_prefill_server_that_is_hardly_used_answers_after_the_prompts_own_step() -> None:
    p = parts([500.0], [1.0], "prefill")
    of = load(p, [1e-6])

    assert ttft_s(of, p, column(2048.0), "mean")[0, 0] == pytest.approx(T0 + 0.05, rel=1e-3)
    assert ttft_s(of, p, column(2048.0), "p90")[0, 0] == pytest.approx(T0 + 0.05, rel=1e-3)


def test_later_percentiles_are_later_and_never_before_the_requests_own_steps() -> None:
    p = parts([500.0, 2000.0], [100.0, 20.0])
    of = load(p, [2.0, 1.0], 4096)
    met = line(of, p.drain_s, moments(of, of.sequences))
    nobody = Waiting(np.zeros((1, 1)), np.zeros((1, 1)))
    found = [ttft_quantile(of, met, nobody, q) for q in (0.5, 0.9, 0.95, 0.99)]

    assert all((less < more).all() for less, more in pairwise(found))
    assert (found[0] >= of.prompt_s).all()
