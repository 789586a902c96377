"""Jobs as tiers problems: what a line says is what the cost model says, and an optimum no shares beat."""

import numpy as np
import pytest

from model_zoo import catalog
from planner.cost.block import Machine, Way, job_of, reached
from planner.cost.block_schedule import COLUMNS, tokens_per_s
from planner.problems.tiers import GPU_BATCHES, state, ways
from solvers import tiers
from solvers.linear import Limits
from solvers.tiers_rounding import rounded

DESKTOP = Machine(24e9, 165e12, 1008e9, 32e9, 128e9, 80e9, 2e12, 7e9, 5e9)
JOB = job_of(catalog.find("opt-30b")[0], 512, 64)


@pytest.fixture(scope="module")
def problem():
    return state(JOB, DESKTOP, ways(), reached())


def test_the_value_of_shares_is_the_cost_models(problem):
    s = tiers.solve(problem, Limits())
    shares = dict(zip(COLUMNS, s.shares.tolist(), strict=True))
    way, batches = s.point.line.key, s.point.batches

    assert s.tokens_per_s == pytest.approx(tokens_per_s(JOB, DESKTOP, way, reached(), batches, shares))
    assert s.status == "optimal"


def test_no_shares_at_random_points_bring_more(problem):
    rng, best = np.random.default_rng(0), tiers.solve(problem, Limits()).tokens_per_s
    seen = 0
    for _ in range(1500):
        line = problem.lines[rng.integers(len(problem.lines))]
        point = tiers.at(line, int(rng.integers(1, tiers.largest(problem, line) + 1)))
        x = np.concatenate([rng.dirichlet(np.full(len(of), 0.3)) for of in problem.of_tensor])
        if (point.bytes[:, :-1] @ x + point.bytes[:, -1] > problem.rooms).any():
            continue
        shares = dict(zip(COLUMNS, x.tolist(), strict=True))
        seen += 1
        assert tokens_per_s(JOB, DESKTOP, line.key, reached(), point.batches, shares) <= best * (1 + 1e-9)
    assert seen > 20


def test_whole_layers_and_batches_lose_little(problem):
    s, whole = tiers.solve(problem, Limits()), rounded(problem, Limits(seconds=10.0))

    assert whole.tokens_per_s <= whole.bound <= s.bound * (1 + 1e-6)
    assert 1 - whole.tokens_per_s / s.tokens_per_s <= 0.02


def test_ways_are_16_bits_unless_packed_is_asked_for():
    assert not any(way.packed_weights or way.packed_cache for way in ways())
    assert len(ways()) == 2 * len(GPU_BATCHES)
    assert Way(8, packed_weights=True, packed_cache=True) in ways(packed=True)
