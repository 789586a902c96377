"""What rests between requests as the numbers of a program, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planner.cost.idle_cache import resting_of
from planner.inputs.reuse import Reuse
from planner.inputs.workload import Bucket, Workload
from planner.problems.idle_cache import Tier, by_age, state

LOAD = Workload(
    buckets=[Bucket(isl=1000, osl=200)], reuse=[Reuse(name="turns", gap_s=10, gap_cv=1, again=0.8)]
)
RESTING = resting_of(LOAD)
TIERS = [Tier("hbm", 10e9), Tier("host", 100e9, 20e9, 5e9)]


def test_tokens_become_gb_and_seconds_of_a_gb():
    """By hand: at 3 requests/s and 100 kB a token 1 GB is 10,000 tokens, 1 ms each at its depth."""
    p = state(RESTING, np.array([3.0]), 1e5, lambda depth: 1e-3 + 0 * depth, TIERS)

    assert p.born == pytest.approx(3 * RESTING.tokens / 1e4)
    assert p.save == pytest.approx(10.0)
    assert p.load.tolist() == [0.0, 0.05]
    assert (p.room.tolist(), p.read[1], p.write[1]) == ([10, 100], 20, 5)
    assert np.isinf(p.read[0])
    assert (p.waits == RESTING.waits_s).all()


def test_deeper_tokens_take_longer_to_compute_again():
    p = state(RESTING, np.array([3.0]), 1e5, lambda depth: depth, TIERS)

    assert p.save == pytest.approx(RESTING.depth * 1e4)


def test_least_recently_used_keeps_the_young_in_the_first_tier_and_older_ones_in_the_next():
    """All that is younger than 5 s in the first, from 5 to 20 s in the second, none after."""
    kept = by_age(RESTING, [5.0, 20.0])

    assert kept.shape == (len(RESTING.tokens), 2, len(RESTING.ages_s))
    seconds = kept[0] @ RESTING.widths_s
    assert seconds == pytest.approx([5.0, 15.0])
    assert kept[0].sum(axis=0) == pytest.approx(RESTING.within(20.0))
    assert (kept >= 0).all()
