"""The wait for one of a server's places: by hand, by Erlang's formulas, and against the replay."""

import numpy as np
import pytest

from benchmarks.queueing import STEPS, Setting
from benchmarks.replays.servers import Settings, replay
from planner.designs.shape import Floats, StepTimes
from planner.queueing import estimate
from planner.queueing.load import Limits, Load, Parts
from planner.queueing.places import wait_for
from planner.simulate.requests import Requests


def one(x: float) -> Floats:
    return np.array([[float(x)]])


def waiting(rate: float, places: float, share_s: float = 0.0):
    """Requests of ten steps of 0.1 s, and of `share_s` that each adds to all who are there, on a decode
    server."""
    step = StepTimes(*(np.array([x]) for x in (0.1, 0.0, 0.0, share_s / 10, 0.0, 1.0)))
    parts = Parts.of(step, one(0), one(1), one(11), "decode")
    load = Load.of(parts, one(rate), Limits.of(np.inf, np.inf, np.inf))
    return wait_for(parts, load, one(places))


@pytest.mark.parametrize(("rate", "places", "chance"), [(0.5, 1, 0.5), (1.0, 2, 1 / 3), (2.0, 3, 4 / 9)])
def test_where_nobody_slows_another_the_chance_is_erlangs(rate: float, places: float, chance: float):
    """By hand; those that wait do for 1 / (c - a), halved as all last as long."""
    found = waiting(rate, places)

    assert found.chance[0, 0] == pytest.approx(chance)
    assert found.given_s[0, 0] == pytest.approx(0.5 * 1.0 / (places - rate))
    assert found.mean_s[0, 0] == pytest.approx(chance * 0.5 / (places - rate))


def test_who_shares_the_steps_waits_less_often_than_at_the_pace_of_a_full_server():
    """Two places, 1 s alone, 1.5 s with another: S(1) = 1, S(2) = 1.5; by hand p1 = 0.5, p2 = 0.5 · 0.5 ·
    1.5 / 2, u = 0.375."""
    found = waiting(0.5, 2, 0.5)
    base, work = 1.0, 0.5
    a, b = 0.5 * (base + work), 0.5 * (base + 2 * work) / 2

    assert found.chance[0, 0] == pytest.approx(a * b / (1 - b) / (1 + a + a * b / (1 - b)))
    assert found.chance[0, 0] < waiting(0.5 * 2.0, 2).chance[0, 0]


def test_both_laws_are_alike_where_they_meet_and_none_waits_without_limit():
    near = [waiting(25.0, places).chance[0, 0] for places in (31.99, 32.01)]

    assert near[0] == pytest.approx(near[1], rel=0.2)
    assert waiting(25.0, np.inf).mean_s[0, 0] == 0.0
    assert waiting(25.0, 24.0).mean_s[0, 0] > 1e6


def test_each_server_waits_for_its_own_places_whoever_is_looked_at_with_it() -> None:
    """Also where all have as many, told once."""
    step = StepTimes(*(np.full(3, x) for x in (0.1, 0.0, 0.0, 0.0, 0.0, 1.0)))
    rate = np.array([[0.5], [1.0], [2.0]])
    shape = step, one(0), one(1), one(11), rate, np.inf, "mean", "open", "decode"
    alike, own = (estimate(*shape, places=p).ttft_s[:, 0] - 0.05 for p in (3.0, np.array([1.0, 2.0, 40.0])))

    assert alike == pytest.approx([waiting(r, 3).mean_s[0, 0] for r in (0.5, 1.0, 2.0)])
    assert own == pytest.approx([waiting(r, p).mean_s[0, 0] for r, p in ((0.5, 1), (1.0, 2), (2.0, 40))])


@pytest.mark.parametrize(
    ("mix", "places", "used"),
    [("chat", 2, 0.5), ("chat", 6, 0.85), ("chat", 30, 0.92), ("conversation", 6, 0.6)],
)
def test_first_tokens_are_those_of_the_replay(mix: str, places: int, used: float):
    """The mean within a tenth, and as many within the p90 but for four points."""
    step, (isl, osl, share) = STEPS["8b"], Setting("8b", mix, 8192, used).buckets
    full = estimate(step, isl, isl, osl, share, 8192, max_sequences=places).utilisation[0]
    rng, count = np.random.default_rng(1), 20_000
    at = np.cumsum(rng.exponential(full / used, count))
    kind = rng.choice(len(isl), count, p=share)
    run = replay(step, Requests(at, isl[kind], osl[kind]), Settings(8192, max_sequences=places))
    came = np.bincount(kind, minlength=len(isl)) / at[-1]
    free = estimate(step, isl, isl, osl, came, 8192).ttft_s[0]
    mean, p90 = (
        estimate(step, isl, isl, osl, came, 8192, p, max_sequences=places).ttft_s[0] for p in ("mean", "p90")
    )

    assert mean @ share == pytest.approx(run.ttft_s[1000:].mean(), rel=0.1)
    assert (run.ttft_s <= p90[kind])[1000:].mean() == pytest.approx(0.9, abs=0.04)
    assert mean @ share > 1.5 * (free @ share)
