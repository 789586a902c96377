"""The ways that requests take, in the Plan's form."""

from __future__ import annotations

from collections.abc import Sequence

from planner.plans import schema
from planner.plans.found import Found, Group, paths


def routing(found: Found, made: Sequence[Group]) -> list[schema.Route]:
    """Shares of each bucket along each way; they add to one."""
    ways = paths(found, made)
    total: dict[int, float] = {}
    for p in ways:
        total[p.bucket] = total.get(p.bucket, 0.0) + p.rate
    routes = []
    for p in ways:
        share = p.rate / total[p.bucket]
        if p.second is None:
            routes.append(schema.Route(bucket=p.bucket, share=share, replica=p.first.id))
        else:
            moved = (p.kv_bytes_per_s or 0.0) / 1e9
            routes.append(
                schema.Route(
                    bucket=p.bucket, share=share, prefill=p.first.id, decode=p.second.id, kv_gb_per_s=moved
                )
            )
    return routes
