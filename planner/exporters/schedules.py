"""A schedule for the autoscalers of Kubernetes; a unit of it is a replica of the Deployment that they name.

KEDA's cron scaler: a ScaledObject a class, a trigger for each run of slots alike
(https://keda.sh/docs/latest/scalers/cron: `start`, `end`, `timezone`, `desiredReplicas`).

An HPA a class, and a CronJob for each time at which its limits change, as an HPA has no hours of its own.
Each CronJob sets `minReplicas` to the schedule's count, so that servers are there when they are due, and
leaves the HPA `HEAD` of it above for what the table did not foresee. The jobs run under a ServiceAccount
that may patch these HPAs and nothing else. An HPA that is to keep 0 replicas takes the feature gate
HPAScaleToZero: where a slot needs none, one stays. Source: kubernetes.io, HorizontalPodAutoscaler v2
(autoscaling/v2), CronJob v1 (`timeZone`, stable since 1.27), RBAC v1; kubectl patch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from planner.errors import InputError
from planner.exporters.deployed import account, made

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


HEAD = 0.2
"""Share of the table's count that the autoscaler may start beyond it."""

METRIC, WAITING = "num_requests_waiting", "4"
"""What an adapter (prometheus-adapter, say) must offer of each pod, and how many are borne: the share of
the CPU, which engines keep busy whatever they do, says nothing. Without it the limits still hold."""

IMAGE = "registry.k8s.io/kubectl:v1.33.0"

ACCOUNT = "meshwright-schedule"


def autoscaled(
    names: Sequence[str], counts: Sequence[Sequence[int]], slot_s: float, zone: str = "Etc/UTC"
) -> list[dict[str, Any]]:
    """An HPA a class with any replicas and its CronJobs, behind the account that they need; slot 0 begins at
    midnight, of Monday where there is more than a day. Raises InputError for slots that cron cannot say."""
    found: list[dict[str, Any]] = []
    for name, mine in zip(names, counts, strict=True):
        if not any(mine):
            continue
        parts, week = runs_of(mine, slot_s)
        found.append(_hpa(name, mine))
        for i, (start_s, _, count) in enumerate(parts):
            found.append(_job(f"{name}-at-{i}", name, count, cron_of(start_s, week), zone))
    scaled = [m["metadata"]["name"] for m in found if m["kind"] == "HorizontalPodAutoscaler"]
    rule = {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"]}
    rule |= {"resourceNames": scaled, "verbs": ["get", "patch"]}  # these HPAs alone
    return [*account(ACCOUNT, rule), *found]


def limits(count: int) -> dict[str, int]:
    """Of an HPA whose table has so many replicas.

    >>> limits(10), limits(0)
    ({'minReplicas': 10, 'maxReplicas': 12}, {'minReplicas': 1, 'maxReplicas': 1})
    """
    least = max(count, 1)
    return {"minReplicas": least, "maxReplicas": max(math.ceil(count * (1 + HEAD)), least)}


def _hpa(name: str, mine: Sequence[int]) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": WAITING}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        **limits(mine[0]),
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": METRIC}, "target": target}}],
        "behavior": {"scaleUp": {"stabilizationWindowSeconds": 0}},
    }
    return made("autoscaling/v2", "HorizontalPodAutoscaler", name, spec=spec)


def _job(job: str, name: str, count: int, cron: str, zone: str) -> dict[str, Any]:
    patch = json.dumps({"spec": limits(count)})
    command = ["kubectl", "patch", "hpa", name, "--type", "merge", "--patch", patch]
    pod = {
        "serviceAccountName": ACCOUNT,
        "restartPolicy": "OnFailure",
        "containers": [{"name": "patch", "image": IMAGE, "command": command}],
    }
    spec = {
        "schedule": cron,
        "timeZone": zone,
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"template": {"spec": pod}}},
    }
    return made("batch/v1", "CronJob", job, spec=spec)
