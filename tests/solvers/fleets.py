"""Small random fleets, and their best answer by trying every combination of counts.

Knows no row of `solvers/fleet`: packing is by trying every bin, traffic by an LP in requests/s of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import highspy
import numpy as np

from solvers.fleet import goals as fleet_goals
from solvers.fleet.goals import THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, Goal, Stock, Transfer

OBJECTIVES = ("throughput", "cost", "energy", "gpus", "latency", "spare")


def goal(name: str) -> Goal:
    """Of the solver, by its name."""
    found: Goal = getattr(fleet_goals, name.upper())
    return found


def random_fleet(seed: int, objective: str | None = None) -> FleetProblem:
    """One to three classes with some replica designs, one to three buckets, perhaps pairs and budgets."""
    r = random.Random(seed)
    for _ in range(1000):
        p = _drawn(r, objective or OBJECTIVES[seed % len(OBJECTIVES)])
        if p is not None and np.prod([most(p, c) + 1.0 for c in p.columns]) <= 200:
            return p
    raise AssertionError("no fleet small enough was drawn")


def _drawn(r: random.Random, objective: str) -> FleetProblem | None:
    buckets = [f"w{i}" for i in range(r.randint(1, 3))]
    weights = [r.uniform(0.2, 1.0) for _ in buckets]
    share = {w: x / sum(weights) for w, x in zip(buckets, weights, strict=True)}
    stocks = {
        f"g{i}": Stock(r.randint(1, 3), r.choice([1, 2, 4, 8]), round(r.uniform(1, 9), 2), r.choice([1, 2]))
        for i in range(r.randint(1, 3))
    }
    stocks = {g: replace(stock, idle_watts=0.03 * (stock.price or 0.0)) for g, stock in stocks.items()}
    paired = r.random() < 0.5
    columns = {}
    for i in range(r.randint(3, 5) if paired else r.randint(1, 5)):
        g = r.choice(list(stocks))
        node = stocks[g].gpus_per_node
        gpus = r.choice([s for s in (1, 2, 3, 4, 5, 6, 8) if s <= node] + [2 * node])
        role = (
            ("prefill", "decode", r.choice(["mixed", "prefill", "decode"]))[min(i, 2)] if paired else "mixed"
        )
        columns[f"c{i}"] = _column(r, g, gpus, node, role, buckets)
        if role == "mixed" and len(stocks) > 1 and r.random() < 0.4:
            columns[f"c{i}"] = _over_classes(r, columns[f"c{i}"], stocks)
    pairs = _pairs(r, columns, buckets)
    nic = {g: r.uniform(0.5, 4.0) for key in pairs for g in key[:2]}
    p = FleetProblem(columns, stocks, share, THROUGHPUT, None, pairs, nic, {"k": r.uniform(0.5, 6.0)})
    demand = None if objective == "throughput" else r.uniform(0.2, 2.5)
    budget = {
        "usd_per_hour": r.uniform(3, 25),
        "gpus": float(r.randint(1, 20)),
        "watts": r.uniform(2, 20),
    }
    kept = {b: x for b, x in budget.items() if r.random() < 0.2}
    inside = {g: 4.5 - rate for g, rate in nic.items()}
    return FleetProblem(
        columns, stocks, share, goal(objective), demand, pairs, nic, p.links, kept, inside=inside
    )


def _column(r: random.Random, g: str, gpus: int, node: int, role: str, buckets: list[str]) -> Column:
    served = [w for w in buckets if r.random() < 0.85] or buckets[:1]
    speed = gpus ** r.uniform(0.7, 1.1) * r.uniform(0.3, 1.0) * (1.0 if role == "mixed" else 2.0)
    use = {
        j: {w: r.uniform(0.3, 1.0) / speed for w in served}
        for j in ("busy", "kv")[: 1 if role == "prefill" else r.randint(1, 2)]
    }
    latency = {w: r.uniform(0.1, 5.0) for w in served}
    group = None if role == "mixed" else f"{role} {r.randint(0, 1)}"
    return Column(g, gpus, use, r.uniform(0.3, 2.0) * gpus, latency, group, gpus > node, r.choice([0, 0.5]))


def _over_classes(r: random.Random, column: Column, stocks: dict[str, Stock]) -> Column:
    """The same on two or three blocks, of at least two classes."""
    homes = r.sample(list(stocks), 2) + r.choices(list(stocks), k=r.randint(0, 1))
    blocks = tuple((g, r.choice([s for s in (1, 2, 3, 4, 8) if s <= stocks[g].gpus_per_node])) for g in homes)
    gpus = sum(size for _, size in blocks)
    sent = {"k": {w: r.uniform(0.1, 2) for w in column.buckets}} if r.random() < 0.5 else {}
    return replace(column, stock=blocks[0][0], gpus=gpus, joined=False, blocks=blocks, sent=sent)


def _pairs(
    r: random.Random, columns: dict[str, Column], buckets: list[str]
) -> dict[tuple[str, str, str], Transfer]:
    groups = sorted({c.group for c in columns.values() if c.group})
    ends = [
        [g for g in groups if g.startswith("prefill")],
        [g for g in groups if g.startswith("decode")],
        buckets,
    ]
    pairs = {
        key: Transfer(r.uniform(0.1, 2), r.uniform(0, 1), r.choice([(), ("k",)]), r.random() < 0.7)
        for key in product(*ends)
        if r.random() < 0.8
    }
    own = random.Random(len(pairs))  # so that fleets of old stay
    return {key: replace(t, inside=not t.on_nic and own.random() < 0.5) for key, t in pairs.items()}


def kinded(p: FleetProblem, seed: int) -> FleetProblem:
    """`p` with columns of a class and role in kinds, and at most one or two kinds."""
    r = random.Random(seed + 20_000)
    kinds = {c: f"{k.stock} {k.group} {r.randint(0, 1)}" for c, k in p.columns.items() if r.random() < 0.9}
    return replace(p, kinds=kinds, most_kinds=r.choice([1, 1, 2]))


def boxed(p: FleetProblem) -> FleetProblem:
    """`p` with all its stocks parts of the same nodes, as many and as dear as the first."""
    first = next(iter(p.stocks.values()))
    parts = {
        g: replace(s, nodes=first.nodes, price=first.price, box="b", domain_nodes=1)
        for g, s in p.stocks.items()
    }
    return replace(p, stocks=parts)


def fed(p: FleetProblem, seed: int) -> FleetProblem:
    """`p` with one or two feeds, each over some of the stocks, that hold so much or so little."""
    r = random.Random(seed + 40_000)
    over = {f"r{i}": {g for g in p.stocks if r.random() < 0.7} for i in range(r.randint(1, 2))}
    columns = {
        c: replace(
            k, feeds={name: r.uniform(0.5, 1.5) * k.gpus for name, own in over.items() if k.stock in own}
        )
        for c, k in p.columns.items()
    }
    return replace(p, columns=columns, feeds={name: r.uniform(0.0, 12.0) for name in over})


def curved(p: FleetProblem, seed: int) -> FleetProblem:
    """`p` with most columns' watts growing with the load; latency, where that is the goal or now a budget."""
    r = random.Random(seed + 30_000)
    columns = {
        c: replace(k, tangents=_tangents(r, k)) if r.random() < 0.8 else k for c, k in p.columns.items()
    }
    budget = dict(p.budget)
    if p.demand is not None and r.random() < 0.4:
        budget[r.choice(["watts", "latency"])] = r.uniform(1.0, 15.0)
    return replace(p, columns=columns, budget=budget)


def loaded(p: FleetProblem, seed: int) -> FleetProblem:
    """`p` with half of its columns serving no less than a part of what they can."""
    r, columns = random.Random(seed + 50_000), dict[str, Column]()
    for c, k in p.columns.items():
        full = 1 / max(u for row in k.use.values() for u in row.values())
        columns[c] = replace(k, least=r.uniform(0.2, 0.9) * full) if r.random() < 0.5 else k
    return replace(p, columns=columns)


def _tangents(r: random.Random, column: Column) -> list[tuple[float, dict[str, float]]]:
    """One to three: the steeper, the lower where it starts, which may be below nothing."""
    ends = sorted((r.uniform(-1.0, 2.0), -r.uniform(0.0, 6.0)) for _ in range(r.randint(1, 3)))
    return [(start, {w: -slope * r.uniform(0.5, 1.0) for w in column.buckets}) for start, slope in ends]


def most(p: FleetProblem, c: str) -> int:
    """Replicas of `c` that fit where nothing else runs."""
    every = sum(stock.nodes * stock.gpus_per_node for stock in p.stocks.values())
    return max(k for k in range(every // p.columns[c].gpus + 1) if _nodes(p, {c: k}) is not None)


def best_by_trying_all(p: FleetProblem) -> float | None:
    """The best objective over all counts that pack and keep the budgets; None: none serves the demand."""
    fitting = [(counts, nodes) for counts in _all_counts(p) if (nodes := _affordable(p, counts)) is not None]
    if p.objective.name in ("throughput", "latency"):
        full = [counts for counts, _ in fitting]
        if not any(k.tangents for k in p.columns.values()):  # more never hurt: only fullest fleets need an LP
            full = [c for c in full if not any(_above(other, c) for other in full)]
        found = [v for counts in full if (v := by_flows(p, counts)) is not None]
        return None if not found else (max(found) if p.objective.name == "throughput" else min(found))
    priced = sorted((_price(p, counts, nodes), i) for i, (counts, nodes) in enumerate(fitting))
    best: float | None = None
    for price, i in priced:
        if best is not None and price >= best:
            break
        flows = by_flows(p, fitting[i][0])
        if flows is not None:
            more = flows if p.objective.name in ("spare", "energy") else 0.0
            best = price + more if best is None else min(price + more, best)
    return best


def _all_counts(p: FleetProblem) -> Iterator[dict[str, int]]:
    for ks in product(*(range(most(p, c) + 1) for c in p.columns)):
        yield dict(zip(p.columns, ks, strict=True))


def _above(a: dict[str, int], b: dict[str, int]) -> bool:
    return a != b and all(a[c] >= b[c] for c in b)


def _affordable(p: FleetProblem, counts: dict[str, int]) -> dict[str, int] | None:
    """Fewest nodes by class where `counts` pack, are of few enough kinds and keep all budgets."""
    nodes = _nodes(p, counts)
    if nodes is None or len(_kinds(p, counts)) > (p.most_kinds or len(counts)):
        return None
    goals: dict[str, str] = {"usd_per_hour": "cost", "watts": "energy", "gpus": "gpus"}
    limits = {b: limit for b, limit in p.budget.items() if b != "latency"}
    kept = all(_price(p, counts, nodes, goals[b]) <= limit + 1e-9 for b, limit in limits.items())
    for name, watts in p.feeds.items():
        kept &= sum(k * p.columns[c].feeds.get(name, 0.0) for c, k in counts.items()) <= watts + 1e-9
    return nodes if kept else None


def _kinds(p: FleetProblem, counts: dict[str, int]) -> set[str]:
    return {p.kinds.get(c, c) for c, k in counts.items() if k}


def _bent(p: FleetProblem) -> tuple[str, dict[str, Column]]:
    """What tangents tell, and the columns that have some."""
    what = "latency" if p.objective.name == "latency" or "latency" in p.budget else "energy"
    counts = p.objective.name == what or {"latency": "latency", "energy": "watts"}[what] in p.budget
    return what, {c: k for c, k in p.columns.items() if counts and k.tangents}


def _price(
    p: FleetProblem, counts: dict[str, int], nodes: dict[str, int], objective: str | None = None
) -> float:
    """Without what depends on flows."""
    goal = objective or p.objective.name
    if goal == "cost":
        own = sum(k * p.columns[c].price for c, k in counts.items())
        each = [(p.stocks[g].price or 0.0) * k for g, k in nodes.items() if p.stocks[g].box is None]
        parts = [(p.stocks[g].price or 0.0) * k for g, k in nodes.items() if p.stocks[g].box is not None]
        return own + sum(each) + max(parts, default=0.0)
    if goal == "energy":
        what, bent = _bent(p)
        own = sum(k * p.columns[c].watts for c, k in counts.items() if what != goal or c not in bent)
        return own + _idle_watts(p, counts)
    return float(sum(k * p.columns[c].gpus for c, k in counts.items()))


def _idle_watts(p: FleetProblem, counts: dict[str, int]) -> float:
    """Of every GPU that no replica stands on."""
    free = {g: stock.nodes * stock.gpus_per_node for g, stock in p.stocks.items()}
    for c, k in counts.items():
        for g, gpus in p.columns[c].blocks or [(p.columns[c].stock, p.columns[c].gpus)]:
            free[g] -= k * gpus
    return sum(p.stocks[g].idle_watts * gpus for g, gpus in free.items())


def _nodes(p: FleetProblem, counts: dict[str, int]) -> dict[str, int] | None:
    """Fewest nodes in use by class; None where they do not suffice."""
    used = {}
    for g, stock in p.stocks.items():
        here = [
            (gpus, p.columns[c].joined, k)
            for c, k in counts.items()
            for of, gpus in p.columns[c].blocks or [(p.columns[c].stock, p.columns[c].gpus)]
            if of == g
        ]
        small = [gpus for gpus, _, k in here for _ in range(k) if gpus <= stock.gpus_per_node]
        spans = [
            (-(-gpus // stock.gpus_per_node), joined, k)
            for gpus, joined, k in here
            if gpus > stock.gpus_per_node
        ]
        used[g] = sum(span * k for span, _, k in spans) + fewest_bins(
            tuple(sorted(small)), stock.gpus_per_node
        )
        domains = [stock.domain_nodes] * (stock.nodes // stock.domain_nodes) + [
            stock.nodes % stock.domain_nodes
        ]
        joined = tuple(sorted(span for span, whole, k in spans if whole for _ in range(k)))
        if used[g] > stock.nodes or not fits(joined, tuple(sorted(domains))):
            return None
    return used


@cache
def fits(items: tuple[int, ...], bins: tuple[int, ...]) -> bool:
    """Whether `items` go into bins of these rooms (both sorted), by trying every bin for the largest item."""
    if not items:
        return True
    *rest, largest = items
    for room in set(bins):
        if largest <= room:
            left = list(bins)
            left.remove(room)
            if fits(tuple(rest), tuple(sorted([*left, room - largest]))):
                return True
    return False


@cache
def fewest_bins(items: tuple[int, ...], room: int) -> int:
    """Fewest bins of `room` for `items` (sorted)."""
    return next(k for k in range(len(items) + 1) if fits(items, (room,) * k))


def by_flows(p: FleetProblem, counts: dict[str, int]) -> float | None:
    """The best rate (throughput), mean latency, least work or watts that `counts` can give; None: demand
    unmet."""
    what, bent = _bent(p)
    e = [("e", c) for c in bent if counts[c]]
    f = [(c, w) for c, column in p.columns.items() for w in column.buckets if counts[c]]
    x = list(p.pairs)
    at = {key: i for i, key in enumerate([*f, *x, *e, "rate"])}
    upper: list[tuple[dict[object, float], float]] = []
    equal: list[dict[object, float]] = []
    for c, k in counts.items():
        for use in p.columns[c].use.values() if k else ():
            upper.append(({(c, w): u for w, u in use.items()}, float(k)))
        if k and p.columns[c].least:
            upper.append(
                (dict.fromkeys(((c, w) for w in p.columns[c].buckets), -1.0), -p.columns[c].least * k)
            )
    for w, share in p.share.items():
        mixed = {(c, v): 1.0 for c, v in f if v == w and p.columns[c].group is None}
        equal.append({**mixed, **{key: 1.0 for key in x if key[2] == w}, "rate": -share})
        for end, group in {(i, key[i]) for key in x for i in (0, 1)} | _ends(p):
            inside = {(c, v): 1.0 for c, v in f if v == w and p.columns[c].group == group}
            equal.append({**inside, **{key: -1.0 for key in x if key[end] == group and key[2] == w}})
    for end, group in {(i, key[i]) for key in x for i in (0, 1)}:
        moved = {key: p.pairs[key].bytes for key in x if key[end] == group and p.pairs[key].on_nic}
        gpus = sum(k * p.columns[c].gpus for c, k in counts.items() if p.columns[c].group == group)
        upper.append((dict(moved), p.nic[group] * gpus))
        own = {key: p.pairs[key].bytes for key in x if key[end] == group and p.pairs[key].inside}
        upper.append((dict(own), p.inside.get(group, 0.0) * gpus))
    for name, limit in p.links.items():
        over: dict[object, float] = {key: t.bytes for key, t in p.pairs.items() if name in t.links}
        inside = {(c, w): p.columns[c].sent[name][w] for c, w in f if name in p.columns[c].sent}
        upper.append((over | inside, limit))
    for key in e:
        for start, slopes in bent[key[1]].tangents:
            rise: dict[object, float] = {(key[1], w): slope for w, slope in slopes.items()}
            upper.append(({**rise, key: -1.0}, -start * counts[key[1]]))
    if what == "energy" and "watts" in p.budget:
        upper.append((dict.fromkeys(e, 1.0), p.budget["watts"] - _price(p, counts, {}, "energy")))
    if "latency" in p.budget:
        upper.append((_latency(p, at, bent) | {"rate": -p.budget["latency"]}, 0.0))
    goal = _latency(p, at, bent) if p.objective.name == "latency" else {}
    goal |= dict.fromkeys(e, 1.0) if p.objective.name == "energy" and what == "energy" else {}
    return _linear(p, at, upper, equal, goal)


def _latency(p: FleetProblem, at: dict[object, int], bent: dict[str, Column]) -> dict[object, float]:
    """Seconds that all requests of a second take."""
    own = {(c, w): s for c, k in p.columns.items() if c not in bent for w, s in k.latency.items()}
    moves = {key: move.latency for key, move in p.pairs.items()}
    terms = {**own, **moves, **{("e", c): 1.0 for c in bent}}
    return {key: s for key, s in terms.items() if key in at}


def _ends(p: FleetProblem) -> set[tuple[int, str]]:
    """Groups, also those that no pair names: what they would serve goes nowhere."""
    return {(int(c.group.startswith("decode")), c.group) for c in p.columns.values() if c.group}


def _linear(
    p: FleetProblem,
    at: dict[object, int],
    upper: list[tuple[dict[object, float], float]],
    equal: list[dict[object, float]],
    least: dict[object, float],
) -> float | None:
    goal = np.zeros(len(at))
    goal[[at[key] for key in least]] = list(least.values())
    if p.objective.name == "throughput":
        goal[at["rate"]] = -1.0
    for key, i in at.items():
        if p.objective.name == "spare" and isinstance(key, tuple) and len(key) == 2 and key[0] != "e":
            goal[i] = p.columns[key[0]].gpus * p.columns[key[0]].use["busy"][key[1]] / 100
    rows = [*((-INF, terms, most) for terms, most in upper), *((0.0, terms, 0.0) for terms in equal)]
    rate = {at["rate"]: (p.demand or 0.0, p.demand if p.objective.name != "throughput" else INF)}
    found = _solved(goal, [(low, {at[key]: v for key, v in t.items()}, high) for low, t, high in rows], rate)
    scale = {"throughput": -1.0, "latency": 1.0 / (p.demand or 1.0)}.get(p.objective.name, 1.0)
    return None if found is None else found * scale


INF = highspy.kHighsInf


@cache
def _solver() -> highspy.Highs:
    """HiGHS as it comes: scipy's `linprog` takes four times as long to hand it so small a program."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    return solver


def _solved(goal, rows, limits) -> float | None:
    """The least `goal` (k,) of columns that are at least 0, or between the `limits` of some, under `rows`:
    lower limit, terms by column, upper limit."""
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_, lp.col_cost_ = len(goal), len(rows), goal
    lower, upper = np.zeros(len(goal)), np.full(len(goal), INF)
    for i, (low, high) in limits.items():
        lower[i], upper[i] = low, high
    lp.col_lower_, lp.col_upper_ = lower, upper
    lp.row_lower_, lp.row_upper_ = np.array([r[0] for r in rows]), np.array([r[2] for r in rows])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.cumsum([0, *(len(terms) for _, terms, _ in rows)]).astype(np.int32)
    lp.a_matrix_.index_ = np.array([i for _, terms, _ in rows for i in terms], np.int32)
    lp.a_matrix_.value_ = np.array([v for _, terms, _ in rows for v in terms.values()], float)
    solver = _solver()
    assert solver.passModel(lp) != highspy.HighsStatus.kError
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return float(solver.getInfo().objective_function_value)
