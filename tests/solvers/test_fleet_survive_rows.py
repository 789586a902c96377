"""Every row about lost nodes (`survive.py`, `nodes.py`), restated, against the model, as `test_fleet_rows.py`
does for the others; chances are counted loss by loss."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any
from unittest.mock import patch

import pytest

from solvers import fleet
from solvers.fleet import nodes as fleet_nodes
from solvers.fleet import survive as fleet_survive
from solvers.fleet.types import Built, Column, FleetProblem, Survive
from solvers.linear import Linear, Var
from tests.solvers.fleets import kinded, random_fleet
from tests.solvers.test_fleet_rows import EQUAL, ROWS, Point, slack

OWN = ("left", "rest f", "rest x", "few", "each", "gone", "at", "on")
"""Families of variables that rows about losses choose."""


@dataclass
class Case:
    """A problem's model and a point of it; values of each of its own families, as often as it was made."""

    p: FleetProblem
    b: Built
    at: Point
    values: dict[str, list[dict[Any, float]]]
    columns: list[float]

    def left(self, number: int) -> dict[str, float]:
        return self.values["left"][number]

    def members(self, standing: Hashable) -> list[str]:
        return self.p.standings()[standing]

    def some(self, standing: Hashable) -> Column:
        return self.p.columns[self.members(standing)[0]]

    def running(self, standing: Hashable) -> float:
        return sum(self.at.n[c] for c in self.members(standing))

    def there(self, standing: Hashable, number: int) -> float:
        return sum(self.left(number)[c] for c in self.members(standing))


def spans(p: FleetProblem, column: Column, g: str) -> list[int]:
    """Nodes of each of its blocks on a class that takes nodes whole, and 0 of each that shares one."""
    blocks = column.blocks or ((column.stock, column.gpus),)
    size = p.stocks[g].gpus_per_node
    return [-(-gpus // size) if gpus > size else 0 for of, gpus in blocks if of == g]


def least(p: FleetProblem, column: Column, g: str) -> int:
    """Nodes that it takes, where all blocks that share share the same one."""
    own = spans(p, column, g)
    return max(sum(own), 1) if own else 0


def most(p: FleetProblem, column: Column, g: str) -> int:
    """Nodes that it takes, where none share one."""
    return sum(max(span, 1) for span in spans(p, column, g))


def kept(p: FleetProblem, column: Column, loss: Mapping[str, int], nodes: Mapping[str, int]) -> float:
    """The share of all losses that miss it, of each class."""
    chance = 1.0
    for g, lost in loss.items():
        taken, every = set(range(least(p, column, g))), list(combinations(range(nodes[g]), lost))
        if taken:
            chance *= sum(not taken & set(some) for some in every) / len(every) if every else 0.0
    return chance


def every(p: FleetProblem) -> dict[str, int]:
    return {g: stock.nodes for g, stock in p.stocks.items()}


def numbered(name: str) -> int:
    return int(name.split(":")[0])


def left(k: Case, key: tuple[str, Hashable]) -> float:
    number = numbered(key[0])
    loss = fleet_survive.losses(k.p)[number]
    return kept(k.p, k.some(key[1]), loss, every(k.p)) * k.running(key[1]) - k.there(key[1], number)


def thin(k: Case, key: tuple[str, str, int]) -> float:
    name, g, s = key
    number, p = numbered(name), k.p
    loss = {g: fleet_survive.losses(p)[number][g]}
    on = {c: column.gpus_on(g) for c, column in p.columns.items() if column.gpus_on(g)}
    lost = {c: 1 - kept(p, p.columns[c], loss, every(p) | {g: s}) for c in on}
    free = max(lost.values(), default=0.0) * p.stocks[g].nodes * p.stocks[g].gpus_per_node
    right = sum(on[c] * lost[c] * k.at.n[c] for c in on) - free * (1 - k.values["few"][0][g, s])
    return sum(on[c] * (k.at.n[c] - k.left(number)[c]) for c in on) - right


def few(k: Case, key: tuple[str, int]) -> float:
    return k.at.y[key[0]] + (key[1] + 1) * k.values["few"][0][key] - (key[1] + 1)


def held(k: Case, g: str) -> float:
    return sum(most(k.p, column, g) * k.at.n[c] for c, column in k.p.columns.items()) - k.at.y[g]


def each(k: Case, key: tuple[str, int, Hashable]) -> float:
    g, s, standing = key
    nodes = most(k.p, k.some(standing), g)
    free = nodes * k.p.most(k.some(standing)) * (1 - k.values["few"][0].get((g, s), 1.0))
    return s * k.values["each"][0][g, standing] + free - nodes * k.running(standing)


def sure(k: Case, key: tuple[str, Hashable]) -> float:
    number, standing = numbered(key[0]), key[1]
    loss = fleet_survive.losses(k.p)[number]
    lost = sum(a * k.values["each"][0].get((g, standing), 0.0) for g, a in loss.items())
    free = k.p.most(k.some(standing)) * sum(loss.values()) * gone(k, number, standing)
    return free + k.running(standing) - lost - k.there(standing, number)


def gone(k: Case, number: int, standing: Hashable) -> float:
    several = [i for i, loss in enumerate(fleet_survive.losses(k.p)) if sum(loss.values()) > 1]
    return k.values["gone"][several.index(number)][standing] if number in several else 0.0


def whether_gone(k: Case, key: tuple[str, Hashable]) -> float:
    number, standing = numbered(key[0]), key[1]
    return k.p.most(k.some(standing)) * (1 - gone(k, number, standing)) - k.there(standing, number)


def least_at(k: Case, key: tuple[str, Hashable]) -> float:
    g, standing = key
    here = sum(v for (of, _, kind), v in k.values["at"][0].items() if (of, kind) == key)
    return here - least(k.p, k.some(standing), g) * k.running(standing)


def room(k: Case, key: tuple[str, int]) -> float:
    taken = 0.0
    for (g, i, standing), v in k.values["at"][0].items():
        blocks = k.some(standing).blocks or ((k.some(standing).stock, k.some(standing).gpus),)
        size = k.p.stocks[g].gpus_per_node
        taken += v * min(min(gpus, size) for of, gpus in blocks if of == g) * ((g, i) == key)
    return k.p.stocks[key[0]].gpus_per_node * k.values["on"][0][key] - taken


def on(k: Case, g: str) -> float:
    return k.at.y[g] - sum(v for (of, _), v in k.values["on"][0].items() if of == g)


def first(k: Case, key: tuple[str, int]) -> float:
    return k.values["on"][0][key] - k.values["on"][0][key[0], key[1] + 1]


def without(k: Case, key: tuple[str, Hashable, int]) -> float:
    name, standing, j = key
    losses = [" and ".join(f"{g} {i}" for g, i in loss) for loss in fleet_nodes.losses(k.p)]
    gone = [
        v
        for (g, i, kind), v in k.values["at"][0].items()
        if kind == standing and f"{g} {i}" in name.split(" and ")
    ]
    several = sum(most(k.p, k.some(standing), g) for g in k.p.stocks) > 1
    lost = gone[j] if several and gone else sum(gone)
    return k.running(standing) - lost - k.there(standing, losses.index(name))


MEAN: dict[str, Callable[..., float]] = {
    "left": left, "thin": thin, "few": few, "held": held, "each": each, "sure": sure, "gone": whether_gone,
}  # fmt: skip
APART: dict[str, Callable[..., float]] = {
    "at": least_at, "room": room, "on": on, "first": first, "left": without,
}  # fmt: skip


def at_rest(k: Case, number: int) -> Point:
    """The point of what is left of a loss, which serves its share of the rate."""
    f, x = k.values["rest f"][number], k.values["rest x"][number]
    assert k.p.survive is not None
    return replace(k.at, n=k.left(number), f=f, x=x, rate=k.p.survive.share * k.at.rate)


def stated(k: Case, family: str, key: Any) -> float:
    """What a row about losses leaves, by the docstrings."""
    apart = fleet_nodes.apart(k.p)
    if family.startswith("rest "):
        name, own = key
        losses = [" and ".join(f"{g} {i}" for g, i in loss) for loss in fleet_nodes.losses(k.p)]
        number = losses.index(name) if apart else numbered(name)
        return ROWS[family.removeprefix("rest ")][1](k.p, k.b, own, at_rest(k, number))
    return (APART if apart else MEAN)[family](k, key)


def case(p: FleetProblem, r: random.Random) -> Case:
    """The model, and a point that any value may stand at."""
    made: dict[str, list[dict[Any, Var]]] = {family: [] for family in OWN}
    variables = Linear._variables

    def noted(self: Linear, family: str, *args: Any, **options: Any) -> dict[Any, Var]:
        found = variables(self, family, *args, **options)
        if family in made:
            made[family].append(found)
        return found

    with patch.object(Linear, "_variables", noted):
        b = fleet.build(p)
    either = {v for family in ("few", "gone", "on") for own in made[family] for v in own.values()}
    assert all(b.model.upper[v.column] == 1.0 and b.model.integer[v.column] for v in either)
    at = Point.drawn(p, b, r)
    columns = at.columns(b)
    values = {
        family: [{key: r.uniform(0, 5) for key in own} for own in several] for family, several in made.items()
    }
    for family, several in made.items():
        for own, drawn in zip(several, values[family], strict=True):
            for key, v in own.items():
                unit = b.unit[key[-1]] if family.startswith("rest ") else 1.0
                columns[v.column] = drawn[key] / unit
    return Case(p, b, at, values, columns)


def problems(apart: bool) -> list[FleetProblem]:
    """Fleets that may lose one node or two; node by node, or in the mean and surely."""
    found = []
    for seed in range(60):
        p = random_fleet(seed)
        p = kinded(p, seed) if seed % 3 == 0 else p
        lost = Survive(1 + seed % 2, 0.6, sure=not apart and seed % 4 > 1)
        if sum(stock.nodes for stock in p.stocks.values()) >= lost.nodes:
            found.append(replace(p, survive=lost))
    return found


@pytest.mark.parametrize("apart", [False, True], ids=["in the mean", "node by node"])
def test_every_row_about_lost_nodes_says_what_the_docstring_says(apart: bool, monkeypatch) -> None:
    monkeypatch.setattr(fleet_nodes, "LOSSES", 100 if apart else 0)
    seen = set()
    for i, p in enumerate(problems(apart)):
        before = fleet.build(replace(p, survive=None)).model.rows.keys()
        cases = [case(p, random.Random(f"{i} {k}")) for k in range(4)]
        for (family, key), row in cases[0].b.model.rows.items():
            if (family, key) in before:
                continue
            seen.add(family)
            model = [slack(row, k.columns) for k in cases]
            right = [stated(k, family, key) for k in cases]
            ratio = max(model, key=abs) / max(right, key=abs)
            same = [ratio * v for v in right]

            equal = family.removeprefix("rest ") in EQUAL
            assert (row.lower == row.upper) == equal, f"{i}: {family}[{key}]"
            assert ratio > 0 or equal, f"{i}: {family}[{key}]"
            assert model == pytest.approx(same, rel=1e-6, abs=1e-6 * max(map(abs, model))), (
                f"{i}: {family}[{key}]"
            )
    own = {family for family in seen if not family.startswith("rest ")}
    assert own == set(APART if apart else MEAN)
