"""A trace as a workload: few buckets of lengths with their means kept, and what returns to the prefix cache.

Blocks whose next use lies beyond the end of the trace count as never used again, and their first use as not
found: reuse over hours is not seen in a trace of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.inputs.reuse import LONGEST_S, Idle, IdleKind
from planner.inputs.trace_columns import Floats, Ints
from planner.inputs.traces import Trace
from planner.inputs.workload import Bucket, Workload

EDGES = ((0.5, 0.8, 0.95), (0.5, 0.9), (0.9,), ())
"""Quantiles of the prompt length at which buckets part: the longest twentieth holds a third of the tokens.
Fewer where sessions grow from bucket to bucket: what is found there must not be lost."""

TOGETHER = 0.9
"""Share of what is found again that must be found in the bucket that left it."""

AGES = 24
"""Classes of age; the younger the fewer returns, as small caches hold only those: ends at (i / AGES)^1.5."""

DEPTHS = 3
"""Classes of depth in the prompt, each with as many blocks as the others."""


def buckets_of(trace: Trace) -> tuple[list[Bucket], Ints]:
    """Buckets with the mean lengths of their requests, and the bucket of each request."""
    which = next(w for w in (_parted(trace, edges) for edges in EDGES) if _together(trace, w))
    buckets = []
    for i in range(int(which.max()) + 1):
        own = which == i
        isl, osl = (max(round(float(x[own].mean())), 1) for x in (trace.isl, trace.osl))
        buckets.append(Bucket(isl=isl, osl=osl, share=float(own.mean())))
    return buckets, which


def _parted(trace: Trace, edges: Sequence[float]) -> Ints:
    """Requests by length."""
    which = np.searchsorted(np.quantile(trace.isl, edges), trace.isl, side="left")
    return np.unique(which, return_inverse=True)[1].astype(np.int64)


def _together(trace: Trace, which: Ints) -> bool:
    """Whether most of what is found again was left by requests of the same bucket."""
    if trace.block_tokens == 0 or which.max() == 0:
        return True
    all_, own = Uses.of(trace), Uses.of(trace, which)
    return float(own.tokens[own.seen].sum()) >= TOGETHER * float(all_.tokens[all_.seen].sum())


def idle_of(trace: Trace, bucket: Ints) -> Idle | None:
    """What returns, of requests in these buckets; None where the trace names no blocks, or none returns.

    Each bucket by itself, as a plan may send them to different replicas: what requests of another bucket left
    is not found.
    """
    if trace.block_tokens == 0:
        return None
    use = Uses.of(trace, bucket)
    return counted(trace, use, bucket)[0] if np.isfinite(use.next_s).any() else None


def counted(trace: Trace, use: Uses, bucket: Ints) -> tuple[Idle, Ints]:
    """What returns, and which of its kinds each use of a block is of."""
    ages = np.quantile(use.next_s[np.isfinite(use.next_s)], (np.arange(1, AGES + 1) / AGES) ** 1.5)
    ages = np.unique(np.clip(ages, 1e-3, LONGEST_S))
    count, of_use = np.bincount(bucket), bucket[use.request]
    edges = np.quantile(use.depth, np.arange(1, DEPTHS) / DEPTHS)
    depth_class = np.searchsorted(edges, use.depth, side="right")
    kinds: list[IdleKind] = []
    kind = np.zeros(len(use.depth), dtype=np.int64)
    for w in range(len(count)):
        last: dict[bool, int] = {}
        for d in range(DEPTHS):
            for seen in (True, False):  # blocks met before stand before new ones
                own = (of_use == w) & (depth_class == d) & (use.seen == seen)
                if own.any():
                    kind[own] = len(kinds)
                    above = last.get(seen, last.get(True))
                    last[seen] = len(kinds)
                    kinds.append(_kind(use, own, ages, w, int(count[w]), above))
        kinds.append(_answers(trace, use, bucket == w, of_use == w, w, len(ages)))
    found = [_by_age(use.last_s, use.tokens, use.seen & (of_use == w), ages) for w in range(len(count))]
    hits = [(tokens / count[w]).tolist() for w, tokens in enumerate(found)]
    return Idle(ages_s=ages.tolist(), kinds=kinds, hits=hits), kind


def traced(workload: Workload, trace: Trace, asked: Collection[str]) -> tuple[Workload, list[str]]:
    """`workload` with the trace's requests in place of its buckets, and what there is to say of them.
    `asked`: its values that the user gave. Raises InputError where these say lengths or reuse, too."""
    said = [n for n in ("isl", "osl") if n in asked] + [
        n for n in ("prefix_hit", "reuse", "idle") if getattr(workload, n)
    ]
    if said:
        hint = f"leave out `{said[0]}`, or the trace"
        raise InputError(f"`{said[0]}` and a trace both say what requests are like", "--trace", hint)
    buckets, which = buckets_of(trace)
    idle = idle_of(trace, which)
    longest = int(trace.osl.max()) if workload.max_osl is None else workload.max_osl
    update = {"buckets": buckets, "idle": idle, "max_osl": max(longest, *(b.osl for b in buckets))}
    return Workload.model_validate({**workload.model_dump(), **update}), list(_notes(trace, idle))


def _notes(trace: Trace, idle: Idle | None) -> Iterator[str]:
    many = f"{len(trace):,} requests in {trace.span_s / 60:,.0f} min"
    failed = f", {trace.dropped:,} failed ones left out" if trace.dropped else ""
    yield f"{trace.path}: {many}{failed}; --rate {trace.rate_rps:.3g} plans for its own rate"
    if idle is None:
        why = (
            "no block of a prompt comes twice"
            if trace.block_tokens
            else "the trace names no blocks of prompts"
        )
        yield f"{trace.path}: {why}, so nothing is found in the prefix cache"
    steps = np.unique(trace.arrival_s)
    least = float(np.diff(steps).min())
    if least >= 1 and len(steps) < 0.5 * len(trace):
        yield f"{trace.path}: stamps are {least:.1f} s apart and more: fine for reuse, too coarse for bursts"


@dataclass(frozen=True, eq=False)
class Uses:
    """Each use of a block, arrays of the shape of `Trace.block`: its request, tokens before it, its tokens,
    seconds to its next use and since its last one (infinite: none), whether there was one."""

    request: Ints
    depth: Ints
    tokens: Ints
    next_s: Floats
    last_s: Floats

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        return np.isfinite(self.last_s)

    @staticmethod
    def of(trace: Trace, apart: Ints | None = None) -> Uses:
        """`apart` (requests,): which of several caches each request meets."""
        many = np.diff(trace.start)
        request = np.repeat(np.arange(len(trace)), many)
        depth = (np.arange(len(trace.block)) - np.repeat(trace.start[:-1], many)) * trace.block_tokens
        tokens = np.minimum(trace.isl[request] - depth, trace.block_tokens)
        block = trace.block
        if apart is not None:
            block = block * (int(apart.max()) + 1) + apart[request]
        order = np.argsort(block, kind="stable")
        same = block[order][1:] == block[order][:-1]
        at = trace.arrival_s[request][order]
        gap = np.where(same, np.diff(at), np.inf)
        next_s, last_s = np.full(len(order), np.inf), np.full(len(order), np.inf)
        next_s[order[:-1]], last_s[order[1:]] = gap, gap
        return Uses(request, depth, tokens, next_s, last_s)


def _kind(use: Uses, own: NDArray[np.bool_], ages: Floats, w: int, count: int, above: int | None) -> IdleKind:
    tokens = float(use.tokens[own].sum())
    back = _by_age(use.next_s, use.tokens, own & np.isfinite(use.next_s), ages) / tokens
    depth = float(use.depth[own] @ use.tokens[own]) / tokens
    return IdleKind(
        bucket=w, depth=depth, tokens=tokens / count, back=np.minimum(back, 1.0).tolist(), above=above
    )


def _answers(
    trace: Trace, use: Uses, requests: NDArray[np.bool_], own: NDArray[np.bool_], w: int, ages: int
) -> IdleKind:
    """What a trace does not name, answers and ends of prompts: it is kept as all else, and not found."""
    rest = float(trace.osl[requests].sum() + trace.isl[requests].sum() - use.tokens[own].sum())
    depth = float(trace.isl[requests].mean())
    return IdleKind(bucket=w, depth=depth, tokens=rest / int(requests.sum()), back=[0.0] * ages)


def _by_age(gap_s: Floats, tokens: Ints, chosen: NDArray[np.bool_], ages: Floats) -> Floats:
    """Tokens of the chosen uses by the class of their gap."""
    at = np.minimum(np.searchsorted(ages, gap_s[chosen], side="left"), len(ages) - 1)
    found = np.bincount(at, weights=tokens[chosen].astype(float), minlength=len(ages))
    return np.asarray(found, dtype=float)
