"""Jobs as tiers problems: what a line says is what the cost model says, and an optimum no shares beat."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.offline_runs import tokens_per_s
from model_zoo import catalog
from planner.cost.block import Beside, Machine, Way, job_of, reached
from planner.problems.tiers import GPU_BATCHES, state, ways
from solvers import tiers
from solvers.linear import Limits
from solvers.tiers.rounding import rounded
from solvers.tiers.types import TiersProblem

DESKTOP = Machine(24e9, 165e12, 1008e9, 32e9, 128e9, 80e9, 2e12, 7e9, 5e9)
JOB = job_of(catalog.find("opt-30b")[0], 512, 64)


CXL, FAR = Beside("cxl", 128e9, 40e9, 30e9, True), Beside("remote", 32e9, 10e9, 10e9, False)
EVERYTHING = replace(DESKTOP, host_bytes=32e9, beside=(CXL, FAR), host_flops_per_s=2e12)


@pytest.fixture(scope="module", params=["desktop", "everything", "one memory"])
def problem(request):
    machine, cpu = {
        "desktop": (DESKTOP, False),
        "everything": (EVERYTHING, True),
        "one memory": (replace(DESKTOP, unified=True, host_bytes=0, pcie_bytes_per_s=1e15), False),
    }[request.param]
    return Posed(machine, state(JOB, machine, ways(cpu_weights=cpu), reached()))


class Posed(NamedTuple):
    machine: Machine
    p: TiersProblem


def test_the_value_of_shares_is_the_cost_models(problem):
    s = tiers.solve(problem.p, Limits())
    shares = dict(zip(problem.p.columns, s.shares.tolist(), strict=True))
    way, batches = s.point.line.key, s.point.batches

    assert s.tokens_per_s == pytest.approx(
        tokens_per_s(JOB, problem.machine, way, reached(), batches, shares)
    )
    assert s.status == "optimal"


def test_no_shares_at_random_points_bring_more(problem):
    (machine, p), rng = problem, np.random.default_rng(0)
    best = tiers.solve(p, Limits()).tokens_per_s
    seen = 0
    for _ in range(1500):
        line = p.lines[rng.integers(len(p.lines))]
        point = tiers.at(line, int(rng.integers(1, tiers.largest(p, line) + 1)))
        x = np.zeros(len(p.columns))
        for of in p.of_tensor:
            there = [i for i in of if p.room.get(p.columns[i][1], 1.0)]
            x[there] = rng.dirichlet(np.full(len(there), 0.3))
        if (point.bytes[:, :-1] @ x + point.bytes[:, -1] > p.rooms).any():
            continue
        shares = dict(zip(p.columns, x.tolist(), strict=True))
        seen += 1
        assert tokens_per_s(JOB, machine, line.key, reached(), point.batches, shares) <= best * (1 + 1e-9)
    assert seen > 10


def test_whole_layers_and_batches_lose_little(problem):
    s, whole = tiers.solve(problem.p, Limits()), rounded(problem.p, Limits(seconds=10.0))

    assert whole.tokens_per_s <= whole.bound <= s.bound * (1 + 1e-6)
    assert 1 - whole.tokens_per_s / s.tokens_per_s <= 0.02


def test_ways_are_16_bits_unless_packed_is_asked_for():
    assert not any(way.cpu_weights for way in ways())
    assert not any(way.packed_weights or way.packed_cache for way in ways())
    assert len(ways()) == 2 * len(GPU_BATCHES)
    assert Way(8, packed_weights=True, packed_cache=True) in ways(packed=True)
