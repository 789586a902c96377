"""Objects of plain Kubernetes that several targets write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def deployment(name: str, labels: Mapping[str, str], count: int, spec: Mapping[str, Any]) -> dict[str, Any]:
    """`count` pods of one spec, found by their labels."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": dict(spec)},
        },
    }


def service(name: str, selector: Mapping[str, str], port: int) -> dict[str, Any]:
    """One address for the pods that have these labels."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": dict(selector), "ports": [{"port": port, "targetPort": port}]},
    }


def config_map(name: str, data: Mapping[str, str]) -> dict[str, Any]:
    """Files that pods mount."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(data)}
