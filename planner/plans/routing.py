"""The ways that requests take, in the Plan's form."""

from __future__ import annotations

from collections.abc import Sequence

from planner.plans import parts, schema
from planner.plans.found import Found, Group, Path, paths


def routing(found: Found, made: Sequence[Group]) -> list[schema.Route]:
    """Shares of each bucket along each way; they add to one."""
    return parts.routes([_way(p) for p in paths(found, made)])


def _way(p: Path) -> parts.Way:
    second = p.second.id if p.second else None
    return parts.Way(p.bucket, p.rate, p.first.id, second, p.kv_bytes_per_s or 0.0)
