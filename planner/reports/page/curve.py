"""A curve of `meshwright pareto` around a plan: what is given up for what, and where the plan stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from planner.errors import InputError
from planner.plans.schema import Plan
from planner.reading.documents import read
from planner.reading.validation import validate
from planner.reports import words as say
from planner.reports.figures import owned
from planner.reports.page.blocks import Chart, Column, Folded, Mark, Section, Table, Tick, Words


class Form(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Axis(Form):
    """What is measured, in which unit, and whether more of it is better."""

    what: str
    unit: str
    more_is_better: bool


class Point(Form):
    """The best within a limit, `gap` from the best possible at most. `plan`: all of it, of which the names of
    model and cluster are read here."""

    x: FiniteFloat
    y: FiniteFloat
    gap: FiniteFloat
    plan: dict[str, Any]


class Curve(Form):
    """The document that `pareto -o curve.json` writes."""

    curve: Literal["speed", "cost", "energy"]
    x: Axis
    y: Axis
    points: Annotated[list[Point], Field(min_length=1)]


def read_curve(path: str | Path) -> Curve:
    """The curve in a file. Raises InputError with file:line:column."""
    return validate(read(path), Curve)


def _speed(plan: Plan) -> tuple[float, float]:
    p = plan.predicted
    return 1e3 / max(p.tpot_ms.value, 1e-9), p.out_tok_per_s.value / max(owned(plan), 1)


def _cost(plan: Plan) -> tuple[float, float]:
    p, buckets = plan.predicted, plan.problem.workload["buckets"]
    steps = sum(b["share"] * (b["osl"] - 1) for b in buckets) / sum(b["share"] for b in buckets)
    usd = p.usd_per_hour.value if p.usd_per_hour else math.nan
    return usd, (p.ttft_ms.value + steps * p.tpot_ms.value) / 1e3


def _energy(plan: Plan) -> tuple[float, float]:
    return plan.predicted.rps.value, plan.predicted.watts.value


WHERE: Final[Mapping[str, Callable[[Plan], tuple[float, float]]]] = {
    "speed": _speed,
    "cost": _cost,
    "energy": _energy,
}
"""Where a plan stands on each curve: x and y from its own predictions, as `planner/studies/curves.py` has
them."""


def section(curve: Curve, plans: Sequence[Plan], names: Sequence[str]) -> Section:
    """The curve with the plans on it, and its points as a table. Raises InputError where it is a curve of
    another model or cluster than each of the plans."""
    of = {(_name(p.plan, "model"), _name(p.plan, "cluster")) for p in curve.points}
    for plan in plans:
        own = (str(plan.problem.model["name"]), str(plan.problem.cluster.get("name", "")))
        if own not in of:
            told = " and ".join(sorted({" on ".join(x) for x in of}))
            raise InputError(f"the curve is of {told}, the plan of {' on '.join(own)}", "--curve")
    worst = max(p.gap for p in curve.points)
    said = (
        f"Across: {_aim(curve.x)}. Up: {_aim(curve.y)}. Each point is the best plan within its limit, at "
        f"most {say.percent(worst)} from the best possible; the line between them is for the eye alone."
    )
    table = Folded("The points in figures", (_table(curve),))
    return Section("curve", "What is given up for what", (Words.of(said), _chart(curve, plans, names), table))


def _aim(axis: Axis) -> str:
    return f"{axis.unit} {axis.what}, {'more' if axis.more_is_better else 'less'} is better"


def _name(plan: Mapping[str, Any], what: str) -> str:
    """The name of the model or cluster of a plan in its JSON form."""
    found = (plan.get("problem") or {}).get(what) or {}
    return str(found.get("name", ""))


def _chart(curve: Curve, plans: Sequence[Plan], names: Sequence[str]) -> Chart:
    own = [WHERE[curve.curve](plan) for plan in plans]
    told = [(x, y, name) for (x, y), name in zip(own, names, strict=True) if math.isfinite(x + y)]
    every = [(p.x, p.y) for p in curve.points] + [(x, y) for x, y, _ in told]
    across, up = ticks(max(x for x, _ in every)), ticks(max(y for _, y in every))

    def at(x: float, y: float) -> tuple[float, float]:
        return x / across[-1], y / up[-1]

    return Chart(
        label=f"{curve.y.what} in {curve.y.unit} against {curve.x.what} in {curve.x.unit}",
        across=tuple(Tick(v / across[-1], say.number(v, 1)) for v in across),
        up=tuple(Tick(v / up[-1], say.number(v, 1)) for v in up),
        x=f"{curve.x.unit} {curve.x.what}",
        y=f"{curve.y.unit} {curve.y.what}",
        line=tuple(at(p.x, p.y) for p in curve.points),
        marks=tuple(Mark(*at(x, y), name) for x, y, name in told),
    )


def ticks(most: float) -> list[float]:
    """Round values from 0 on that reach `most`, about five.

    >>> ticks(38.3), ticks(1586.0)
    ([0.0, 10.0, 20.0, 30.0, 40.0], [0.0, 500.0, 1000.0, 1500.0, 2000.0])
    """
    raw = max(most, 1e-12) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    return [i * step for i in range(math.ceil(most / step - 1e-9) + 1)]


def _table(curve: Curve) -> Table:
    columns = (
        Column(f"{curve.x.unit} {curve.x.what}"),
        Column(f"{curve.y.unit} {curve.y.what}", right=True),
        Column("from the best possible, at most", right=True),
    )
    rows = tuple(
        tuple((Words.of(text),) for text in (say.number(p.x), say.number(p.y), say.percent(p.gap)))
        for p in curve.points
    )
    return Table("Points of the curve", columns, rows)
