"""Every row of the fleet program's docstrings, restated in requests/s, dollars and watts, against the model.

A row of the model may be scaled, and stand with all terms on one side: at any two points its slack and the
docstring's must be in the same ratio, which is above 0. Which keys a family has is stated here, too.
"""

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import pytest

from solvers import fleet
from solvers.fleet import boxes as fleet_boxes
from solvers.fleet import costs as fleet_costs
from solvers.fleet import feeds as fleet_feeds
from solvers.fleet import flows as fleet_flows
from solvers.fleet import kinds as fleet_kinds
from solvers.fleet.types import Built, FleetProblem
from solvers.linear import Expr
from tests.solvers.fleets import OBJECTIVES, boxed, curved, fed, goal, kinded, loaded, random_fleet

PACKED = {"fit", "full", "cover"}
"""Rows of `packing.py`, whose own tests restate them."""


@dataclass(frozen=True)
class Point:
    """A value for each variable, in units of the docstrings."""

    n: dict[str, float]
    y: dict[str, float]
    f: dict[tuple[str, str], float]
    x: dict[tuple[str, str, str], float]
    rate: float
    e: dict[str, float]
    u: dict[str, float]
    i: dict[str, float]
    q: dict[str, float]

    @staticmethod
    def drawn(p: FleetProblem, b: Built, r: random.Random) -> "Point":
        def some(keys):
            return {key: r.uniform(0, 5) for key in keys}

        return Point(
            some(b.n),
            some(b.y),
            some(b.f),
            some(b.x),
            r.uniform(1, 9),
            some(b.e),
            some(b.u),
            some(b.idle),
            some(b.paid),
        )

    def columns(self, b: Built) -> list[float]:
        """As columns of the model."""
        values = [0.0] * len(b.model.lower)
        for family, own in ((b.n, self.n), (b.y, self.y), (b.u, self.u), (b.idle, self.i), (b.paid, self.q)):
            for key, v in family.items():
                values[v.column] = own[key]
        for family, own in ((b.f, self.f), (b.x, self.x)):
            for key, v in family.items():
                values[v.column] = own[key] / b.unit[key[-1]]
        for c, v in b.e.items():
            values[v.column] = self.e[c] / b.scale[c]
        values[b.rate.column] = self.rate / b.reference
        return values


def slack(row: Expr, values: list[float]) -> float:
    """What the row leaves, as the model counts it."""
    left = sum(c * values[i] for i, c in row.terms)
    return row.upper - left if row.upper < float("inf") else left - row.lower


# what each row says: its keys, and right less left at a point

Says = tuple[
    Callable[[FleetProblem, Built], set[Hashable]], Callable[[FleetProblem, Built, Hashable, Point], float]
]


def members(p: FleetProblem, group: str) -> list[str]:
    return [c for c, column in p.columns.items() if column.group == group]


def busy(p, b, key, at):
    c, j = key
    return at.n[c] - sum(u * at.f[c, w] for w, u in p.columns[c].use[j].items())


def run(p, b, key, at):
    c, w = key
    most = p.demand if p.objective.name != "throughput" else fleet_flows.MOST * len(p.share) * b.reference
    return most * p.share[w] * at.n[c] - at.f[c, w]


def load(p, b, c, at):
    return sum(v for (own, _), v in at.f.items() if own == c) - p.columns[c].least * at.n[c]


def serve(p, b, w, at):
    mixed = sum(v for (c, bucket), v in at.f.items() if bucket == w and p.columns[c].group is None)
    return p.share[w] * at.rate - mixed - sum(v for key, v in at.x.items() if key[2] == w)


def passed(side):
    def left(p, b, key, at):
        group, w = key
        inside = sum(at.f[c, w] for c in members(p, group) if (c, w) in at.f)
        return sum(v for pair, v in at.x.items() if pair[side] == group and pair[2] == w) - inside

    return left


def moved(p, at, chosen):
    return sum(p.pairs[key].bytes * v for key, v in at.x.items() if chosen(key, p.pairs[key]))


def port(side, name, over):
    def left(p, b, group, at):
        each = getattr(p, name)[group]
        room = each * sum(p.columns[c].gpus * at.n[c] for c in members(p, group))
        return room - moved(p, at, lambda key, pair: key[side] == group and getattr(pair, over))

    def there(p, b):
        return {key[side] for key, pair in p.pairs.items() if getattr(pair, over)}

    return there, left


def link(p, b, k, at):
    inside = sum(p.columns[c].sent.get(k, {}).get(w, 0.0) * v for (c, w), v in at.f.items())
    return p.links[k] - inside - moved(p, at, lambda key, pair: k in pair.links)


def whole(p, b, g, at):
    taken = 0.0
    for c, column in p.columns.items():
        for of, gpus in column.blocks or ((column.stock, column.gpus),):
            taken += at.n[c] * -(-gpus // p.stocks[g].gpus_per_node) * (of == g)
    return at.y[g] - taken


def spent(p, b, what, at):
    if what == "usd_per_hour":
        nodes = sum((p.stocks[g].price or 0.0) * y for g, y in at.y.items() if p.stocks[g].box is None)
        nodes += sum(
            q * next(s.price or 0.0 for s in p.stocks.values() if s.box == b) for b, q in at.q.items()
        )
        return nodes + sum(p.columns[c].price * n for c, n in at.n.items())
    if what == "gpus":
        return sum(p.columns[c].gpus * n for c, n in at.n.items())
    bent = at.e if fleet_costs.tangents_of(p) == what else {}
    if what == "watts":
        idle_watts = sum(p.stocks[g].idle_watts * v for g, v in at.i.items())
        return idle_watts + sum(bent[c] if c in bent else p.columns[c].watts * n for c, n in at.n.items())
    own = sum(p.columns[c].latency.get(w, 0.0) * v for (c, w), v in at.f.items() if c not in bent)
    return own + sum(bent.values()) + sum(p.pairs[key].latency * v for key, v in at.x.items())


def budget(p, b, what, at):
    return p.budget[what] * (at.rate if what == "latency" else 1.0) - spent(p, b, what, at)


def feed(p, b, r, at):
    return p.feeds[r] - sum(at.n[c] * k.feeds.get(r, 0.0) for c, k in p.columns.items())


def idle(p, b, g, at):
    here = sum(at.n[c] * column.gpus_on(g) for c, column in p.columns.items())
    return p.stocks[g].nodes * p.stocks[g].gpus_per_node - at.i[g] - here


def cost(p, b, key, at):
    c, k = key
    start, slopes = p.columns[c].tangents[k]
    return (
        at.e[c] - start * at.n[c] - sum(slope * at.f[c, w] for w, slope in slopes.items() if (c, w) in at.f)
    )


def kind(p, b, key, at):
    k, blocks = key
    here = [c for c in p.columns if p.kind(c) == k and tuple(sorted(p.columns[c].stands.items())) == blocks]
    return p.most(p.columns[here[0]]) * at.u[k] - sum(at.n[c] for c in here)


def light(p, b):
    use = {(c, w): max(u[w] for u in p.columns[c].use.values() if w in u) * b.unit[w] for c, w in b.f}
    return {key for key, filled in use.items() if filled < fleet_flows.LIGHT}


def ends(side):
    def keys(p, b):
        named = {key[side] for key in p.pairs}
        prefills = {key[0] for key in p.pairs}
        mine = {c.group for c in p.columns.values() if c.group and (c.group in prefills) == (side == 0)}
        flows = {(p.columns[c].group, w) for c, w in b.f} | {(key[side], key[2]) for key in p.pairs}
        return {(g, w) for g, w in flows if g in named | mine}

    return keys


def bent(p, b):
    return {(c, k) for c in fleet_costs.curved(p) for k in range(len(p.columns[c].tangents))}


def alike(p, b):
    return {(p.kind(c), tuple(sorted(k.stands.items()))) for c, k in p.columns.items()} if b.u else set()


def alone(p, b):
    """Classes where no two replicas share a node: all blocks inside a node are more than half of it."""
    sizes = {(g, gpus) for c in p.columns.values() for g, gpus in c.stands}
    return {
        g
        for g, stock in p.stocks.items()
        if all(2 * gpus > stock.gpus_per_node for of, gpus in sizes if of == g)
    }


def over(k, p, b):
    return any(k in pair.links for pair in p.pairs.values()) or any(k in p.columns[c].sent for c, _ in b.f)


ROWS: dict[str, Says] = {
    "busy": (lambda p, b: {(c, j) for c, k in p.columns.items() for j in k.use}, busy),
    "run": (light, run),
    "load": (lambda p, b: {c for c, k in p.columns.items() if k.least}, load),
    "serve": (lambda p, b: set(p.share), serve),
    "out": (ends(0), passed(0)),
    "in": (ends(1), passed(1)),
    "send": port(0, "nic", "on_nic"),
    "receive": port(1, "nic", "on_nic"),
    "hand": port(0, "inside", "inside"),
    "take": port(1, "inside", "inside"),
    "link": (lambda p, b: {k for k in p.links if over(k, p, b)}, link),
    "nodes": (lambda p, b: set(p.stocks), lambda p, b, g, at: p.stocks[g].nodes - at.y[g]),
    "budget": (lambda p, b: set(p.budget), budget),
    "feed": (lambda p, b: set(p.feeds), feed),
    "whole": (alone, whole),
    "idle": (lambda p, b: set(b.idle), idle),
    "cost": (bent, cost),
    "paid": (
        lambda p, b: {g for g, s in p.stocks.items() if s.box} if p.counts("usd_per_hour") else set(),
        lambda p, b, g, at: at.q[p.stocks[g].box] - at.y[g],
    ),
    "kind": (alike, kind),
    "kinds": (
        lambda p, b: set() if p.most_kinds is None else {"all"},
        lambda p, b, _, at: p.most_kinds - sum(at.u.values()),
    ),
}
MODULES = (fleet, fleet_boxes, fleet_costs, fleet_feeds, fleet_kinds)
EQUAL = {"serve", "out", "in", "whole", "idle"}


def problems() -> list[FleetProblem]:
    """Every objective, with and without kinds and tangents, and one with columns that some buckets take
    nothing of."""
    drawn = []
    for seed in range(48):
        p = random_fleet(seed, OBJECTIVES[seed % len(OBJECTIVES)])
        p = kinded(p, seed) if seed % 3 == 0 else p
        p = boxed(p) if seed % 5 == 0 else p
        p = fed(p, seed) if seed % 7 == 0 else p
        p = loaded(p, seed) if seed % 4 == 0 else p
        drawn.append(curved(p, seed) if seed % 2 else p)
    idle = {"busy": {"w0": 0.2, "w1": 1e-7}}
    p = next(p for p in drawn if {"w0", "w1"} <= set(p.share))
    some = next(iter(p.columns))
    lighter = replace(p, columns={**p.columns, some: replace(p.columns[some], use=idle, sent={})})
    return [*drawn, lighter]


def test_every_row_of_the_model_says_what_the_docstring_says() -> None:
    seen = set()
    for i, p in enumerate(problems()):
        b = fleet.build(p)
        points = [Point.drawn(p, b, random.Random(f"{i} {k}")) for k in range(4)]
        for (family, key), row in b.model.rows.items():
            if family in PACKED:
                continue
            seen.add(family)
            model = [slack(row, at.columns(b)) for at in points]
            stated = [ROWS[family][1](p, b, key, at) for at in points]
            ratio = max(model, key=abs) / max(stated, key=abs)

            assert row.lower == (row.upper if family in EQUAL else -float("inf")), f"{i}: {family}[{key}]"
            assert ratio > 0 or family in EQUAL, f"{i}: {family}[{key}]"
            assert model == pytest.approx(
                [ratio * v for v in stated], rel=1e-6, abs=1e-6 * max(map(abs, model))
            )
    assert seen == set(ROWS)


def test_every_family_has_a_row_for_each_of_its_keys() -> None:
    for i, p in enumerate(problems()):
        b = fleet.build(p)
        for family, (keys, _) in ROWS.items():
            found = {key for own, key in b.model.rows if own == family}
            assert found == keys(p, b), f"{i}: {family}"


def test_every_row_stands_in_a_docstring() -> None:
    text = "\n".join(doc for doc in (m.__doc__ for m in MODULES) if doc)
    stated = {
        line.split("[")[0] for line in text.splitlines() if line[:1].isalpha() and "[" in line.split()[0]
    }

    assert stated == set(ROWS)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_is_minimised_is_what_the_docstring_says(objective: str) -> None:
    names = {"cost": "usd_per_hour", "energy": "watts", "gpus": "gpus", "latency": "latency"}
    for seed in range(12):
        p = random_fleet(seed, objective)
        p = curved(replace(p, objective=goal(objective)), seed)
        b = fleet.build(p)
        at = Point.drawn(p, b, random.Random(seed))
        values = at.columns(b)
        found = sum(c * values[i] for i, c in b.model.goal)
        if objective == "throughput":
            expected = -at.rate
        elif objective == "spare":
            work = sum(p.columns[c].gpus * p.columns[c].first[w] * v / 100 for (c, w), v in at.f.items())
            expected = spent(p, b, "gpus", at) + work
        else:
            expected = spent(p, b, names[objective], at) / (p.demand if objective == "latency" else 1.0)

        assert found == pytest.approx(expected), f"seed {seed}"
