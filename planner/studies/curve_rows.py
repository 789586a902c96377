"""A curve as documents and tables have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.reports.words import short
from planner.studies.pareto import Curve, Point


def as_json(of: Curve, points: Sequence[Point]) -> dict[str, Any]:
    """The curve as documents have it, each point with its whole plan."""
    axes = {
        name: {"what": axis.what, "unit": axis.unit, "more_is_better": axis.more}
        for name, axis in (("x", of.x), ("y", of.y))
    }
    rows = [
        {
            **{name: float(f"{getattr(p, name):.9g}") for name in ("x", "y", "limit", "bound", "gap")},
            "plan": p.plan.model_dump(mode="json", by_alias=True),
        }
        for p in points
    ]
    return {"curve": of.name, **axes, "points": rows}


def rows(of: Curve, points: Sequence[Point]) -> list[list[object]]:
    """The curve as a table, its header first: a row a point, with what runs and what it costs."""
    head: list[object] = [
        f"{of.x.what} [{of.x.unit}]",
        f"{of.y.what} [{of.y.unit}]",
        "limit",
        "bound",
        "ttft_ms",
        "tpot_ms",
        "usd_per_hour",
        "watts",
        "replicas",
    ]
    table: list[list[object]] = [head]
    for p in points:
        told = p.plan.predicted
        usd = told.usd_per_hour.value if told.usd_per_hour else ""
        figures = (p.x, p.y, p.limit, p.bound, told.ttft_ms.value, told.tpot_ms.value, usd, told.watts.value)
        shown = [float(f"{v:.6g}") if isinstance(v, float) else v for v in figures]
        table.append([*shown, "; ".join(short(r) for r in p.plan.replicas)])
    return table
