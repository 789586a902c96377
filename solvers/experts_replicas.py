"""Replicas on the GPUs of one small layer, stated as integers: what exact formulations have in common.

Sets       e in E experts   r in 1..R replicas   g in G GPUs
Data       s[g] slots
Choose     x[e,r,g] integer >= 0   replicas of e on g, where e has r in all
           y[e,r]   0 or 1         e has r replicas
one[e]     sum(r) y[e,r] == 1
all[e,r]   sum(g) x[e,r,g] == r * y[e,r]
slots[g]   sum(e,r) x[e,r,g] == s[g]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.experts_types import Floats, Ints
from solvers.linear import Linear, Outcome, Term, Var, total

MOST_CELLS = 100
"""Experts x replicas x GPUs up to which a layer is solved so."""


def small(experts: int, slots: Ints) -> bool:
    """Whether a layer of so many experts is small enough."""
    return experts * len(slots) * (int(slots.sum()) - experts + 1) <= MOST_CELLS


@dataclass(frozen=True)
class Replicas:
    """The model `m` with its `x`; `most` replicas of one expert."""

    m: Linear
    x: dict[tuple[int, int, int], Var]
    experts: int
    most: int

    def load(self, load: Floats, gpu: int, scale: float) -> list[Term]:
        """`scale` times what `gpu` carries of `load` (experts,)."""
        each = [(e, r) for e in range(self.experts) for r in range(1, self.most + 1)]
        return [scale * float(load[e]) / r * self.x[e, r, gpu] for e, r in each]

    def on(self, expert: int, gpu: int) -> list[Term]:
        """Replicas of `expert` on `gpu`."""
        return [1.0 * self.x[expert, r, gpu] for r in range(1, self.most + 1)]

    def filled(self, outcome: Outcome, slots: Ints) -> Ints | None:
        """Experts in the slots (slots,), GPU after GPU; None where the solve found none."""
        if not outcome.has_values:
            return None
        counts = outcome.counts(self.x)
        found = [
            e for g in range(len(slots)) for (e, _, at), k in counts.items() if at == g for _ in range(k)
        ]
        return np.array(found, dtype=np.int64)


def stated(name: str, experts: int, slots: Ints) -> Replicas:
    """A model with the rows above and no goal yet."""
    gpus, most = range(len(slots)), range(1, int(slots.sum()) - experts + 2)
    m = Linear(name)
    x = m.integers("x", [(e, r, g) for e in range(experts) for r in most for g in gpus])
    y = m.integers("y", [(e, r) for e in range(experts) for r in most], 1.0)
    for e in range(experts):
        m.add("one", e, total(y[e, r] for r in most).equals(1.0))
        for r in most:
            m.add("all", (e, r), total([*(1.0 * x[e, r, g] for g in gpus), -float(r) * y[e, r]]).equals(0.0))
    for g in gpus:
        m.add("slots", g, total(x[e, r, g] for e in range(experts) for r in most).equals(float(slots[g])))
    return Replicas(m, x, experts, len(most))
