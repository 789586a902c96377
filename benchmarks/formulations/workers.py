"""Workers: GPUs of each type split among the workers that every request passes, each worker into replicas.

Sets       w in W   kinds of worker (prefill, attention, ffn)        g in G   GPU types
           t in T[w,g]   GPUs that one replica of w on g may have
Data       rate[w,g,t]  one such replica alone serves      [request/s]
           stock[g]  GPUs of type g                        pairs: kinds whose replicas stand in pairs
Choose     n[w,g,t]  integer >= 0   replicas               x  real >= 0   requests served  [1/s]
maximise   x
through[w] sum(g,t) rate[w,g,t] * n[w,g,t]  >= x
stock[g]   sum(w,t) t * n[w,g,t]            <= stock[g]
pair[v,w]  sum(g,t) n[v,g,t]                == sum(g,t) n[w,g,t]
some[v,w]  sum(g,t) n[v,g,t]                >= 1

Only the best ways to spend GPUs are columns: a replica that two smaller ones of the same kind and type beat
or equal is left out where the kind is in no pair (in pairs, the number of replicas matters too).

In the model x and rate are in units of the largest that x could be, so that coefficients are near 1.

Source     the question: HexGen-3; the formulation is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from solvers.linear import Limits, Linear, Status, Term, Var, judge, total

Slice = tuple[str, str, int]


@dataclass(frozen=True)
class WorkersProblem:
    """`rate[worker][type][gpus]`, `stock[type]`; units are in the module docstring."""

    rate: Mapping[str, Mapping[str, Mapping[int, float]]]
    stock: Mapping[str, int]
    pairs: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class WorkersSolution:
    """`replicas[worker, type, gpus]` without zeros; `objective` and `bound` in requests/s."""

    status: Status
    objective: float | None
    bound: float | None
    replicas: Mapping[Slice, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Built:
    """The model; 1 of x is `unit` requests/s."""

    model: Linear
    n: Mapping[Slice, Var]
    x: Var
    unit: float


def solve(p: WorkersProblem, limits: Limits) -> WorkersSolution:
    """The most requests/s and its bound."""
    built = build(p)
    outcome = built.model.solve(limits)
    bound = None if outcome.bound is None else -outcome.bound * built.unit
    if not outcome.has_values:
        return WorkersSolution(outcome.status, None, bound)
    replicas = outcome.counts(built.n)
    value = served(p, replicas)
    return WorkersSolution(judge(value, bound, limits, outcome.status), value, bound, replicas)


def build(p: WorkersProblem) -> Built:
    """Write the model: one statement for each line of the docstring, in its order."""
    m, unit = Linear("workers"), most(p) or 1.0
    n = m.integers("n", slices(p), {key: p.stock[key[1]] // key[2] for key in slices(p)})
    x = m.reals("x", ["x"])["x"]

    m.minimise([x * -1.0])
    for w in p.rate:
        made = [v * (p.rate[w][g][t] / unit) for (u, g, t), v in n.items() if u == w]
        m.add("through", w, total([*made, x * -1.0]) >= 0)
    for g in p.stock:
        m.add("stock", g, total(v * t for (_, h, t), v in n.items() if h == g) <= p.stock[g])
    for first, second in p.pairs:
        ones = [v * 1.0 for (w, _, _), v in n.items() if w == first]
        others = [v * 1.0 for (w, _, _), v in n.items() if w == second]
        m.add("pair", (first, second), total(ones + [Term(i, -1.0) for i, _ in others]).equals(0))
        m.add("some", (first, second), total(ones) >= 1)
    return Built(m, n, x, unit)


def slices(p: WorkersProblem) -> list[Slice]:
    """Replicas worth a column: they fit the stock, and out of pairs no two smaller ones are as good."""
    paired = {w for pair in p.pairs for w in pair}
    kept: list[Slice] = []
    for w, by_type in p.rate.items():
        for g, table in by_type.items():
            best = [0.0] * (p.stock.get(g, 0) + 1)
            for t in range(1, len(best)):
                best[t] = max(best[k] + best[t - k] for k in range(t // 2 + 1))
                if t in table and (w in paired or table[t] > best[t]):
                    kept.append((w, g, t))
                best[t] = max(best[t], table.get(t, 0.0))
    return kept


def most(p: WorkersProblem) -> float:
    """Requests/s that no split can pass: all GPUs for the kind of worker that then serves the least."""
    per_gpu = {
        w: {g: max((r / t for t, r in x.items()), default=0.0) for g, x in p.rate[w].items()} for w in p.rate
    }
    return min(
        (sum(p.stock.get(g, 0) * r for g, r in each.items()) for each in per_gpu.values()), default=0.0
    )


def served(p: WorkersProblem, replicas: Mapping[Slice, int]) -> float:
    """Requests/s of `replicas`: what the weakest kind of worker serves."""
    return min(sum(k * p.rate[w][g][t] for (w, g, t), k in replicas.items() if w == kind) for kind in p.rate)
