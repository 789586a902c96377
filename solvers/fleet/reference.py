"""The rate in which a fleet's model counts its traffic, so that its coefficients are near 1."""

from __future__ import annotations

from solvers.fleet.types import Column, FleetProblem
from solvers.linear import INF


def reference(p: FleetProblem) -> float:
    """Requests/s of about the size of the answer, in which the model counts its traffic.

    For throughput: what the classes would serve if each served every bucket with its fastest columns, mixed
    ones, or prefill ones everywhere and decode ones everywhere, whichever are the slower. By bucket, as there
    are columns of one bucket alone, that may be a tiny part of all work.
    """
    if p.demand and not p.objective.more:
        return p.demand
    prefills = {key[0] for key in p.pairs}
    best: dict[tuple[str, str, str], float] = {}
    for column in p.columns.values():
        role = "mixed" if column.group is None else "prefill" if column.group in prefills else "decode"
        for w in column.buckets:
            key, work = (role, w, column.stock), max(u.get(w, 0.0) for u in column.use.values())
            best[key] = max(best.get(key, 0.0), _most(p, column) / work if work > 0 else INF)
    rates = {w: {"mixed": 0.0, "prefill": 0.0, "decode": 0.0} for w in p.share}
    for (role, w, _), rate in best.items():
        if w in rates:
            rates[w][role] += rate
    each = {w: max(of["mixed"], min(of["prefill"], of["decode"])) for w, of in rates.items()}
    seconds = sum(p.share[w] / rate for w, rate in each.items() if rate > 0)
    return 1 / seconds if seconds > 0 else 1.0


def _most(p: FleetProblem, column: Column) -> float:
    """No more replicas of `column` than this fit on all nodes and into each budget; at least one, for the
    sake of a size."""
    shares = [p.stocks[g].price_of(gpus) * times for (g, gpus), times in column.stands.items()]
    each = {"gpus": column.gpus, "watts": column.watts, "usd_per_hour": column.price + sum(shares)}
    afforded = [limit / each[what] for what, limit in p.budget.items() if each.get(what, 0.0) > 0]
    return max(min([p.most(column), *afforded]), 1.0)
