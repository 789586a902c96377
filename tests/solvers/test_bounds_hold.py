"""Bounds of fleets too large to try all: no plan that a search finds may pass the bound that another states.

Watches the solver, not the formulation: HiGHS 1.12 has stated a false bound at tolerances below ours.
"""

import random

import pytest

from solvers import fleet
from solvers.fleet.goals import THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, Stock, Transfer
from solvers.linear import Limits, Linear, Outcome


def medium(seed: int) -> FleetProblem:
    """Three classes, two buckets; mixed, prefill and decode designs at two points each, pairs over NICs."""
    r = random.Random(seed)
    share = {"short": 0.7, "long": 0.3}
    work = {"short": 1.0, "long": r.uniform(3.0, 9.0)}
    columns: dict[str, Column] = {}
    stocks, speed = {}, {}
    for g in ("a", "b", "c"):
        stocks[g] = Stock(r.randint(1, 4), r.choice([4, 8]), 1.0)
        speed[g] = r.uniform(0.5, 3.0)
        for gpus in (1, 2, 4, 8):
            for role, gain in (("mixed", 1.0), ("prefill", 3.0), ("decode", 1.5)):
                for point in range(2):
                    rate = speed[g] * gpus**0.95 * gain * r.uniform(0.8, 1.0) * (1 + 0.1 * point)
                    busy = {w: x / rate for w, x in work.items()}
                    use = {"busy": busy, "kv": {w: u * r.uniform(0.5, 1.3) for w, u in busy.items()}}
                    group = None if role == "mixed" else f"{role} {g}"
                    columns[f"{g} {role} {gpus} {point}"] = Column(g, gpus, use, group=group)
    ends = [(f"prefill {p}", f"decode {d}") for p in stocks for d in stocks]
    pairs = {(p, d, w): Transfer(x, on_nic=p[-1] != d[-1]) for p, d in ends for w, x in work.items()}
    nic = {f"{role} {g}": r.uniform(0.5, 5.0) for role in ("prefill", "decode") for g in stocks}
    return FleetProblem(columns, stocks, share, THROUGHPUT, pairs=pairs, nic=nic)


@pytest.mark.parametrize("seed", range(5))
def test_no_plan_passes_the_bound_of_another_search(seed):
    p = medium(seed)
    found = [fleet.solve(p, Limits(gap=0.02, work=30, seed=s)) for s in range(3)]
    best = max(s.objective for s in found if s.objective is not None)

    assert all(s.bound is not None and s.bound >= best * (1 - 1e-6) for s in found)
    relaxed = fleet.relaxed(p, Limits())
    assert relaxed is not None
    assert best * (1 - 1e-6) <= relaxed < fleet.ceiling(p) < 30 * relaxed


def test_a_relaxation_that_time_ended_is_no_bound(monkeypatch):
    """What it had reached by then lies below what some fleets serve."""
    unfinished = Outcome("time_limit", -3.0, None, None, "none")
    monkeypatch.setattr(Linear, "relax", lambda model, limits: unfinished)

    assert fleet.relaxed(medium(0), Limits()) is None
