"""Goals of the fleet program: what a fleet is chosen by, each with its terms and its value of a fleet.

throughput  the most requests/s served
spare       the fewest GPUs, then least work on them, as a hundredth of the GPUs that are busy
the others  the least of what they spend of dollars an hour, GPUs, watts, or seconds of the mean request
            (`costs.py`)
"""

from __future__ import annotations

from functools import partial

from solvers.fleet import costs as fleet_costs
from solvers.fleet.types import Built, FleetProblem, FleetSolution, Goal, What
from solvers.linear import Term

PARTS = 100
"""A GPU counts for one part of so many more while it is busy, where two fleets have as many GPUs."""


def _spending(name: str, what: What) -> Goal:
    return Goal(name, partial(fleet_costs.spending, what=what), partial(fleet_costs.spent, what=what), what)


def _spare(p: FleetProblem, b: Built) -> list[Term]:
    works = {(c, w): k.gpus * u / PARTS for c, k in p.columns.items() for w, u in k.first.items()}
    work = [b.f[key] * (u * b.unit[key[1]]) for key, u in works.items() if key in b.f]
    return fleet_costs.spending(p, b, "gpus") + work


def _spared(p: FleetProblem, s: FleetSolution) -> float:
    used = sum(v * p.columns[c].gpus * p.columns[c].first[w] / PARTS for (c, w), v in s.flows.items())
    return used + fleet_costs.spent(p, s, "gpus")


THROUGHPUT = Goal("throughput", lambda p, b: [b.rate * -b.reference], lambda p, s: s.rate, more=True)
COST = _spending("cost", "usd_per_hour")
ENERGY = _spending("energy", "watts")
LATENCY = _spending("latency", "latency")
GPUS = _spending("gpus", "gpus")
SPARE = Goal("spare", _spare, _spared)
