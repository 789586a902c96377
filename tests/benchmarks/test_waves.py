"""First tokens of a benchmark's waves, request by request."""

import numpy as np
import pytest

from benchmarks.waves import Client, Workers, mean_ttft_s

WORKERS = Workers(prefill=1, prompts=4, t0_s=0.1, token_s=1e-4, handoff_s=0.05, tpot_s=0.01)
"""A step of k prompts of 1000 tokens takes 0.1 (1 + k) seconds."""


def test_all_at_once_wait_for_the_steps_before_theirs():
    """Eight prompts are two steps of half a second: 0.5 and 1 s, and each its handoff."""
    assert mean_ttft_s(WORKERS, Client(8, 1, 1000.0, 100.0)) == pytest.approx(0.8)


def test_a_first_wave_that_comes_one_by_one_meets_nobody():
    """At one request a second each is alone: 0.2 s, and the handoff."""
    assert mean_ttft_s(WORKERS, Client(8, 1, 1000.0, 100.0, rate_rps=1.0)) == pytest.approx(0.25)


def test_workers_share_one_line():
    """Sixteen on two workers: as eight on one."""
    two = Workers(2, 4, 0.1, 1e-4, 0.05, 0.01)

    assert mean_ttft_s(two, Client(16, 1, 1000.0, 100.0)) == pytest.approx(0.8)


def test_equal_lengths_come_together_for_ever():
    """A wave's answers start and end as its steps did, so the next wave finds the workers free."""
    later = mean_ttft_s(WORKERS, Client(8, 2, 1000.0, 1000.0)) * 2 - 0.8

    assert later == pytest.approx(0.55)  # both steps: four that come at once, after 0.5 s


def test_waves_wear_off_as_lengths_drift_apart():
    """Prompts of the second wave meet more of each other than those of the tenth, or of wider ranges."""
    waves = [mean_ttft_s(WORKERS, Client(40, n, 1000.0, 1000.0, 0.8)) * n for n in (1, 2, 9, 10)]
    second, tenth = waves[1] - waves[0], waves[3] - waves[2]
    wide = mean_ttft_s(WORKERS, Client(40, 2, 1000.0, 1000.0, 0.1)) * 2 - waves[0]

    assert second > 1.5 * tenth
    assert second > 1.5 * wide


def test_places_make_the_rest_wait():
    """Of four requests two decode at once: the other two wait for an answer of 99 steps."""
    held = Workers(1, 4, 0.1, 1e-4, 0.05, 0.01, places=2)
    free = mean_ttft_s(WORKERS, Client(4, 1, 1000.0, 100.0))

    assert mean_ttft_s(held, Client(4, 1, 1000.0, 100.0)) == pytest.approx(free + 0.5 * 99 * 0.01)


def test_lengths_have_the_mean_that_was_asked():
    lengths = Client(5000, 1, 900.0, 1.0, 0.8).drawn(900.0, np.random.default_rng(0))

    assert lengths.mean() == pytest.approx(900, rel=0.01)
    assert lengths.max() / lengths.min() == pytest.approx(1.25, rel=0.01)
