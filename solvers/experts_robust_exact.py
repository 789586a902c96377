"""A small layer, exactly: one placement for several steps of its load.

Data       w[k,e] load in step k, a mean GPU's being its speed   v[g] speed
Choose     x[e,r,g]  replicas (`experts_replicas`)
           B[k] real >= 0   balance of step k, and W their worst
minimise   `mean`: mean(k) B[k]     `worst`: W
time[k,g]  sum(e,r) w[k,e]/r * x[e,r,g] <= v[g] * B[k]
worst[k]   B[k] <= W
"""

from __future__ import annotations

from solvers.experts_replicas import stated
from solvers.experts_types import Floats, Ints
from solvers.linear import Limits, total


def solve(part: Floats, slots: Ints, speed: Floats, worst: bool, limits: Limits) -> tuple[Ints | None, float]:
    """Experts in the slots (slots,), None where none was found in time, and the bound of their balance."""
    stated_ = stated("robust", part.shape[1], slots)
    m, steps = stated_.m, range(len(part))
    balance = m.reals("B", steps)
    top = m.reals("W", [0])[0]

    m.minimise([1.0 * top] if worst else [1.0 / len(part) * balance[k] for k in steps])
    for k in steps:
        m.add("worst", k, total([1.0 * balance[k], -1.0 * top]) <= 0.0)
        for g in range(len(slots)):
            carried = stated_.load(part[k], g, 1 / float(speed[g]))
            m.add("time", (k, g), total([*carried, -1.0 * balance[k]]) <= 0.0)
    outcome = m.solve(limits)
    return stated_.filled(outcome, slots), float(outcome.bound or 0.0)
