"""What rests between requests, as the numbers of `solvers.idle_cache`, and what an engine's
least-recently-used eviction keeps in the same tiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from planner.cost.idle_cache import Resting
from planner.designs.shape import Floats
from solvers.idle_cache import KeepingProblem

GB = 1e9


@dataclass(frozen=True)
class Tier:
    """A place for idle cache: rates of its link, infinite where the cache is used in place."""

    name: str
    bytes: float
    read_bytes_per_s: float = np.inf
    write_bytes_per_s: float = np.inf


def state(
    resting: Resting,
    rates: Floats,
    token_bytes: Floats | float,
    token_s: Callable[[Floats], Floats],
    tiers: Sequence[Tier],
) -> KeepingProblem:
    """At `rates` (buckets,) requests/s; `token_bytes` of each bucket, or of all; `token_s` seconds of
    computing a token that has so many before it."""
    per_gb = GB / np.broadcast_to(token_bytes, rates.shape)[resting.bucket]
    return KeepingProblem(
        born=rates[resting.bucket] * resting.tokens / per_gb,
        save=token_s(resting.depth) * per_gb,
        waits=resting.waits_s,
        start=resting.starts,
        back=resting.back,
        above=tuple(int(k) for k in resting.above),
        load=np.array([GB / t.read_bytes_per_s for t in tiers]),
        room=np.array([t.bytes / GB for t in tiers]),
        read=np.array([t.read_bytes_per_s / GB for t in tiers]),
        write=np.array([t.write_bytes_per_s / GB for t in tiers]),
    )


def by_age(resting: Resting, keep_s: Sequence[float]) -> Floats:
    """What least-recently-used eviction keeps, (kinds, tiers, ages): all of the same age in the same tier,
    until the ends `keep_s` (tiers,), rising."""
    ends = np.stack([resting.within(seconds) for seconds in keep_s])
    each = np.diff(ends, axis=0, prepend=np.zeros((1, ends.shape[1])))
    return np.broadcast_to(each, (len(resting.tokens), *each.shape)).copy()
