"""Admission: by hand, against the replay, and what must hold whatever the lengths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from benchmarks.admission import Sample as Lengthy
from benchmarks.admission import Setting, compared
from planner.cost.normal import erfcx
from planner.queueing.admission import (
    Held,
    Lengths,
    Stay,
    closed_loop,
    open_loop,
    places,
)
from planner.queueing.spare import DELAYED, PREEMPTED, SKEW, deviations

ALIKE = Lengths(np.array([1000.0]), np.array([200.0]), np.array([1.0]))
MIXED = Lengths(np.array([300.0, 2000.0]), np.array([400.0, 100.0]), np.array([0.6, 0.4]))


def holding(lengths: Lengths) -> Held:
    """Prompts take no time, tokens one second each."""
    return Held.of(lengths, 0 * lengths.isl, lengths.osl - 1)


def test_held_is_length_biased_by_hand():
    """399 s of 300 + 200 tokens at 0.6, 99 s of 2000 + 50 at 0.4; uniform progress adds osl^2 / 12."""
    held = holding(MIXED)

    a, b = 0.6 * 399, 0.4 * 99
    mean = (a * 500 + b * 2050) / (a + b)
    square = (a * (500**2 + 400**2 / 12) + b * (2050**2 + 100**2 / 12)) / (a + b)
    assert held.mean == pytest.approx(mean)
    assert held.variance == pytest.approx(square - mean**2)


def test_a_reserving_engine_holds_the_same_from_entry_to_end():
    held = holding(replace(ALIKE, reserved=np.array([500.0])))

    assert (held.mean, held.variance) == (1500.0, 0.0)


def test_decay_is_the_root_of_the_risk_process():
    """R E[osl] = 1 - E[exp(-R L)], and of the chance that it is what martingales make it."""
    left = MIXED.decay * float(MIXED.share @ MIXED.osl)

    assert left == pytest.approx(1 - float(MIXED.share @ np.exp(-MIXED.decay * (MIXED.isl + MIXED.osl))))
    assert 0 < MIXED.caught < 1


def test_the_ruin_chance_is_what_drawing_the_process_gives():
    """Room falls by one a token and rises by L at rate 1 / E[osl]: from z it is ruined with exp(-R z)."""
    rng, z, runs = np.random.default_rng(3), 250.0, 4000
    room, alive = np.full(runs, z), np.ones(runs, dtype=bool)
    for _ in range(300):
        room[alive] -= rng.exponential(float(MIXED.share @ MIXED.osl), alive.sum())
        alive &= room > 0
        room[alive] += (MIXED.isl + MIXED.osl)[rng.choice(2, alive.sum(), p=MIXED.share)]

    assert 1 - alive.mean() == pytest.approx(np.exp(-MIXED.decay * z), abs=0.025)


@given(st.floats(0.1, 3.0), st.floats(500.0, 500_000.0))
def test_more_in_flight_never_means_fewer_inside_and_never_a_smaller_chance_to_wait(load, kv):
    held = holding(MIXED)
    count = load * places(MIXED, held, kv)

    one, more = (closed_loop(MIXED, held, kv, max(n, 1.0)) for n in (count, count * 1.1))

    assert more.inside >= one.inside - 1e-6
    assert more.delayed >= one.delayed - 1e-9
    assert 0 <= one.preempted <= 1
    assert one.inside <= max(count, 1.0) + 1e-9


def test_room_for_all_is_littles_law():
    held = holding(ALIKE)

    found = open_loop(ALIKE, held, 1e9, 0.5, Stay(np.array([1.0, 2.0]), np.array([20.1, 20.2])))

    assert found.inside == pytest.approx(0.5 * (20 + 0.1) / (1 - 0.05), rel=1e-6)  # n = rate (base + (n+1) w)
    assert found.delayed == found.preempted == 0


def test_beyond_the_capacity_the_cache_is_full():
    held = holding(ALIKE)

    found = open_loop(ALIKE, held, 50_000.0, 100.0, Stay(np.array([1.0, 2.0]), np.array([20.1, 20.2])))

    assert found.inside == pytest.approx(places(ALIKE, held, 50_000.0))
    assert found.delayed == pytest.approx(1.0)


@pytest.mark.parametrize("loop", ["open", "closed"])
@pytest.mark.parametrize("lengths", [ALIKE, MIXED, replace(MIXED, reserved=MIXED.osl)])
def test_the_deviations_left_free_keep_both_chances(lengths, loop):
    """And just enough: one of the two is at its limit."""
    spread = np.array([10.0, 1e3, 1e5])  # tokens

    z = deviations(lengths, spread, loop)

    tail = special.ndtr(-z)
    assert (np.diff(z) <= 1e-9).all()
    full = (
        tail
        if loop == "closed"
        else 1 / (1 + z * (1 - tail) * np.exp(np.minimum(z * z / 2, 600)) * 2.5066283)
    )
    lost = full * lengths.caught + lengths.grown_mean * np.exp(-z * z / 2) / np.sqrt(2 * np.pi) / spread
    careful = SKEW if loop == "open" else 1.0
    assert careful * np.maximum(full / DELAYED[loop], lost / PREEMPTED) == pytest.approx(1.0, abs=1e-4)


def test_the_normal_integrals_are_scipys():
    x = np.linspace(0, 30, 61)

    assert erfcx(x) == pytest.approx(special.erfcx(x), rel=2e-7)


@pytest.mark.parametrize("reserves", [False, True])
@pytest.mark.parametrize(("loop", "load"), [("closed", 1.0), ("closed", 1.5), ("open", 0.7)])
def test_the_law_agrees_with_the_replay(reserves, loop, load):
    """Log-normal lengths of about 1,200 + 210 tokens in 40,000 tokens of cache."""
    rng = np.random.default_rng(11)
    isl = np.clip(np.round(rng.lognormal(6.8, 0.7, 3000)), 1, 8000)
    osl = np.clip(np.round(rng.lognormal(5.1, 0.7, 3000)), 2, 1000)

    said, seen, noise = compared(Setting("drawn", "8b", 40_000, reserves, loop, load), Lengthy.of(isl, osl))

    assert noise < 0.03
    assert said.inside == pytest.approx(seen.inside, rel=0.05)
    assert said.preempted == pytest.approx(seen.preempted, abs=0.02)
    assert load < 1.0 or reserves or seen.preempted > 0.01  # there is something to see


def test_lumps_make_the_stay_without_a_limit_what_is_asked():
    """Births and deaths alone would stay 1.6 s less; room for all leaves what was asked for."""
    count, each_s = np.array([1.0, 5.0, 40.0]), np.array([2.0, 3.0, 20.0])

    stay = Stay.of(8.0, 1.5, count, each_s)

    assert stay.lumps > 1
    assert open_loop(ALIKE, holding(ALIKE), 1e9, 1.5, stay).inside == pytest.approx(1.5 * 8.0, rel=0.01)
    assert stay.at(np.array([3.0, 80.0])) == pytest.approx([2.5, 20 + 40 * 17 / 35])


def test_an_even_stay_is_of_births_and_deaths():
    even = Stay.even(10.0, 1.0, 0.5)

    assert Stay.of(10.0, 1.0, even.count, even.each_s).lumps == pytest.approx(1.0, abs=0.02)


def test_answers_of_two_tokens_decode_shorter_than_their_prompts_keep_a_server_busy():
    """8,000 tokens in and 2 out at 7.2 requests/s: a server that is 95 % busy, with 0.33 that decode."""
    rate, stay_s = 7.2, 0.0455

    found = open_loop(ALIKE, holding(ALIKE), 1e9, rate, Stay.even(stay_s, rate, 0.95 / rate))

    assert found.inside == pytest.approx(rate * stay_s, rel=0.2)


def test_more_fit_where_steps_are_short_beside_large_requests():
    """At most by Var[X] / E[X] tokens, and not where steps last the same whoever is inside."""
    idle, busy = (Held.of(MIXED, 0 * MIXED.isl, MIXED.osl - 1, x) for x in (0.0, 1.0))

    more = places(MIXED, busy, 50_000.0) - places(MIXED, idle, 50_000.0)

    assert more == pytest.approx(idle.variance / idle.mean**2)
