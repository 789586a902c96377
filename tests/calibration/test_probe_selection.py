"""Choosing runs: against the plain formulas on small random problems."""

from dataclasses import replace

import numpy as np
import pytest

from planner.calibration.selection import LEAST_GAIN, MOST_RUNS, Runs, after, gains, select, spread

P, K = 5, 2


def problem(seed: int, n: int = 8) -> tuple[Runs, np.ndarray, np.ndarray]:
    """Runs of random slopes and minutes on n / 2 servers, targets, and a prior covariance."""
    random = np.random.default_rng(seed)
    runs = Runs(
        slope=random.normal(size=(n, K, P)),
        noise=np.array([0.3, 0.1]),
        minutes=random.uniform(1, 3, n),
        server=np.arange(n) // 2,
        start=np.repeat(random.uniform(1, 9, n // 2), 2),
    )
    return runs, random.normal(size=(4, P)), np.diag(random.uniform(0.1, 1, P))


def by_inverse(covariance: np.ndarray, slope: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Bayes' rule in precisions."""
    return np.linalg.inv(np.linalg.inv(covariance) + slope.T @ np.diag(1 / noise**2) @ slope)


@pytest.mark.parametrize("seed", range(5))
def test_the_update_is_that_of_bayes_in_precisions(seed):
    runs, _, prior = problem(seed)

    assert after(prior, runs.slope[0], runs.noise) == pytest.approx(
        by_inverse(prior, runs.slope[0], runs.noise)
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_first_run_is_the_best_of_all_by_trying_each(seed):
    runs, targets, prior = problem(seed)
    left = [spread(targets, by_inverse(prior, slope, runs.noise)) for slope in runs.slope]
    per_minute = (spread(targets, prior) - np.array(left)) / (runs.minutes + runs.start)

    assert select(runs, targets, prior)[0] == int(per_minute.argmax())
    assert gains(runs.slope, runs.noise, targets, prior) == pytest.approx(
        spread(targets, prior) - np.array(left)
    )


@pytest.mark.parametrize("seed", range(5))
def test_every_later_run_is_the_best_of_those_left(seed):
    runs, targets, prior = problem(seed)
    chosen = select(runs, targets, prior)

    for i, pick in enumerate(chosen):
        before = prior
        for made in chosen[:i]:
            before = by_inverse(before, runs.slope[made], runs.noise)
        others = [j for j in range(8) if j not in chosen[:i]]
        fall = {
            j: spread(targets, before) - spread(targets, by_inverse(before, runs.slope[j], runs.noise))
            for j in others
        }
        running = {int(runs.server[j]) for j in chosen[:i]}
        minutes = {
            j: runs.minutes[j] + (0 if int(runs.server[j]) in running else runs.start[j]) for j in others
        }
        worth = [j for j in others if fall[j] > LEAST_GAIN * spread(targets, before)]
        assert pick == max(worth, key=lambda j: fall[j] / minutes[j])


def test_no_run_is_made_twice_and_there_are_twelve_at_most():
    """Each of 20 unknowns has a run of its own, and one that repeats it."""
    slope = np.repeat(np.eye(20)[:, None, :], 2, axis=0)
    runs = Runs(slope, np.array([0.1]), np.ones(40), np.arange(40), np.zeros(40))
    chosen = select(runs, np.eye(20), np.eye(20))

    assert len(chosen) == MOST_RUNS == 12
    assert len({i // 2 for i in chosen}) == 12


def test_runs_that_tell_too_little_are_left_out():
    runs, targets, prior = problem(0)
    deaf = replace(runs, noise=np.array([30.0, 30.0]))

    assert select(deaf, targets, prior) == []
    assert select(runs, targets, prior, staying=1e6) == []


def test_a_run_on_a_server_that_is_up_is_cheaper():
    """Two servers' runs tell the same: the second run stays where the first was."""
    slope = np.zeros((4, 1, P))
    slope[[0, 2], 0, 0] = slope[[1, 3], 0, 1] = 1.0
    runs = Runs(slope, np.array([0.1]), np.ones(4), np.array([0, 0, 1, 1]), np.array([5.0, 5.0, 4.0, 4.0]))

    assert sorted(select(runs, np.eye(P)[:2], np.eye(P))[:2]) == [2, 3]
