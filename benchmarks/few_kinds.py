"""Whether HiGHS denies fleets of few kinds that there are: `python -m benchmarks.few_kinds [--fleets 400]`.

Random fleets of 8 to 40 columns on 4 to 499 nodes. Each is solved with few kinds and again with no more kinds
than that plan has, and with all but a thousandth of its rate as demand: the plan itself keeps that, so that
"infeasible" is false. So are the programs that have parts of replicas (`solvers/fleet/kinds.py`). And of
small fleets (`tests/solvers/fleets.py`) each "infeasible" is compared with trying every combination of
counts. Exits with 1 where one is false.
"""

from __future__ import annotations

import argparse
import random
import sys
from copy import copy
from dataclasses import replace

from solvers import fleet
from solvers.fleet.goals import COST, ENERGY, GPUS, THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, Stock
from solvers.linear import Limits
from tests.solvers.fleets import OBJECTIVES, best_by_trying_all, kinded, random_fleet

LIMITS = Limits(gap=0.005, work=2000)


def drawn(seed: int) -> FleetProblem:
    """A fleet of which kinds are designs at several loads, and at most one to three of them run."""
    r = random.Random(seed)
    buckets = [f"w{i}" for i in range(r.randint(1, 3))]
    weights = [r.uniform(0.2, 1.0) for _ in buckets]
    share = {w: x / sum(weights) for w, x in zip(buckets, weights, strict=True)}
    stocks = {
        f"g{i}": Stock(r.randint(2, 120), r.choice([4, 8]), round(r.uniform(1, 30), 2))
        for i in range(r.randint(2, 4))
    }
    columns, kinds = dict[str, Column](), dict[str, str]()
    for i in range(r.randint(4, 10)):
        g, gpus = r.choice(list(stocks)), r.choice([1, 2, 4])
        speed = gpus ** r.uniform(0.8, 1.1) * 10 ** r.uniform(-2.5, 1.5)
        served = [w for w in buckets if r.random() < 0.8] or buckets[:1]
        for load in range(r.randint(1, 4)):
            use = {w: r.uniform(0.3, 1.0) / speed for w in served}
            columns[f"c{i}.{load}"] = Column(g, gpus, {"busy": use}, r.uniform(0.3, 2.0) * gpus)
            kinds[f"c{i}.{load}"] = f"k{i}"
    p = FleetProblem(columns, stocks, share, THROUGHPUT, kinds=kinds, most_kinds=r.randint(1, 3))
    most = fleet.solve(p, LIMITS).rate
    goal = r.choice([THROUGHPUT, COST, ENERGY, GPUS])
    return replace(p, objective=goal, demand=r.choice([0.02, 0.3, 0.8, 0.99]) * most) if most else p


def denied(p: FleetProblem) -> list[str]:
    """How a fleet that is there is denied; none where it is not, or none is known."""
    s = fleet.solve(p, LIMITS)
    if s.objective is None or not s.rate:
        return ["whole replicas"] if s.status == "infeasible" and p.demand else []
    own = replace(p, most_kinds=len({p.kind(c) for c in s.replicas}), demand=0.999 * s.rate)
    built = fleet.build(own)
    parts, decide = copy(built.model), {v.column for v in built.u.values()}
    parts.integer = [column in decide for column in range(len(parts.integer))]
    ways = {"whole replicas": built.model, "parts of replicas": parts}
    return [what for what, model in ways.items() if model.solve(LIMITS).status == "infeasible"]


def contradicted(seed: int) -> tuple[bool, bool]:
    """Whether a small fleet is said not to be there, and whether that is false."""
    p = kinded(random_fleet(seed, OBJECTIVES[seed % len(OBJECTIVES)]), seed)
    said = fleet.solve(p, LIMITS).status == "infeasible"
    return said, said and best_by_trying_all(p) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=400)
    many = parser.parse_args().fleets
    wrong = [(seed, how) for seed in range(many) for how in denied(drawn(seed))]
    small = [contradicted(seed) for seed in range(1000, 1000 + many)]
    none, false = (sum(column) for column in zip(*small, strict=True))
    print(f"{many} fleets that are there, denied: {len(wrong)} {wrong}")
    print(f"{many} small fleets, said not to be there: {none}, falsely: {false}")
    return 1 if wrong or false else 0


if __name__ == "__main__":
    sys.exit(main())
