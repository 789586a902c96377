"""A schedule for the autoscaler of Kubernetes: a HorizontalPodAutoscaler a class, and a CronJob for each time
at which its limits change.

An HPA has no hours of its own. Each CronJob sets `minReplicas` to the schedule's count, so that servers are
there when they are due, and leaves the HPA `HEAD` of it above for what the table did not foresee. The jobs
run under a ServiceAccount that may patch these HPAs and nothing else. An HPA that is to keep 0 replicas takes
the feature gate HPAScaleToZero: where a slot needs none, one stays.

Source: kubernetes.io, HorizontalPodAutoscaler v2 (autoscaling/v2), CronJob v1 (`timeZone`, stable since
1.27), RBAC v1; kubectl patch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from planner.exporters.deployed import account, made
from planner.exporters.keda import cron_of, runs_of

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
