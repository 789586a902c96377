"""A schedule as KEDA's cron scaler: a ScaledObject a class, a trigger for each run of slots alike
(https://keda.sh/docs/latest/scalers/cron: `start`, `end`, `timezone`, `desiredReplicas`).

A unit of the schedule is a replica of the Deployment that the ScaledObject names.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from planner.errors import InputError
from planner.exporters.deployed import made

DAY_S, WEEK_S = 86_400, 604_800


def scaled_objects(
    names: Sequence[str], counts: Sequence[Sequence[int]], slot_s: float, zone: str = "Etc/UTC"
) -> list[dict[str, Any]]:
    """One object a class with any replicas; slot 0 begins at midnight, of Monday where there is more than a
    day. Raises InputError for slots that cron cannot say."""
    found = []
    for name, mine in zip(names, counts, strict=True):
        if not any(mine):
            continue
        parts, week = runs_of(mine, slot_s)
        spec = {
            "scaleTargetRef": {"name": name},
            "minReplicaCount": min(mine),
            "maxReplicaCount": max(mine),
            "triggers": [_trigger(*part, week, zone) for part in parts if part[2]],
        }
        found.append(made("keda.sh/v1alpha1", "ScaledObject", f"{name}-schedule", spec=spec))
    return found


def runs_of(mine: Sequence[int], slot_s: float) -> tuple[list[tuple[float, float, int]], bool]:
    """Start and end in seconds and the count of each run of slots alike, and whether they are of a week.
    Raises InputError for slots that cron cannot say."""
    span_s = slot_s * len(mine)
    if slot_s % 60 or span_s > WEEK_S + 1:
        text = "cron says whole minutes of a day or week"
        raise InputError(text, "-o/--output", "write the table as .csv or .json")
    parts, at = [], 0
    for count, run in groupby(mine):
        length = len(list(run))
        parts.append((at * slot_s, (at + length) * slot_s, count))
        at += length
    return parts, span_s > DAY_S + 1


def _trigger(start_s: float, end_s: float, count: int, week: bool, zone: str) -> dict[str, Any]:
    last = (WEEK_S if week else DAY_S) - 60
    return {
        "type": "cron",
        "metadata": {
            "timezone": zone,
            "start": cron_of(start_s, week),
            "end": cron_of(min(end_s, last), week),
            "desiredReplicas": str(count),
        },
    }


def cron_of(second: float, week: bool) -> str:
    """Minute and hour, and the day of the week from Monday on.

    >>> cron_of(8 * 3600 + 600, False), cron_of(86400 + 3600, True)
    ('10 8 * * *', '0 1 * * 2')
    """
    minute = int(second // 60)
    day = "*" if not week else str(minute // 1440 % 7 + 1 if minute // 1440 % 7 < 6 else 0)
    return f"{minute % 60} {minute // 60 % 24} * * {day}"
