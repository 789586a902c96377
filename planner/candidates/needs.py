"""What candidates take, as arrays that dominance compares: resources, and what else counts at loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.candidates.candidate import Candidate
from planner.candidates.tangents import What
from planner.designs.shape import Floats, Ints
from solvers.fleet.types import Goal

AS_THEY_COME = 1e9
"""Watts of GPUs that are told no limit, for comparisons with some that are: more than any."""


@dataclass(frozen=True)
class Counts:
    """What an objective or a budget makes count beside resources."""

    latency: bool
    watts: bool
    waits: bool = False

    @staticmethod
    def of(goal: Goal, watts_limited: bool) -> Counts:
        """Under a goal, with a budget of watts or without."""
        return Counts(goal.spends == "latency", goal.spends == "watts" or watts_limited)

    @property
    def grows(self) -> What | None:
        """What of it grows with a replica's load."""
        if self.waits:
            return "waits"
        return "latency" if self.latency else "watts" if self.watts else None

    @property
    def slow(self) -> bool:
        """Whether it matters how long requests take."""
        return self.latency or self.waits


@dataclass(frozen=True)
class Taken:
    """What n candidates of one class, role and set of partners take, as arrays; shapes: `Needs`."""

    gpus: Ints
    joined: NDArray[np.bool_]
    use: Floats
    least: Floats
    slow: Floats
    watts: Floats
    late: Floats
    handoff: Floats
    hidden: Floats
    copies: Floats


@dataclass(frozen=True)
class Needs(Taken):
    """What n candidates of one class, role and set of partners take, as arrays (n,), buckets w.

    `use`, `least` (n, resources, w; of the plan and of the bound): infinite where a bucket isn't served; a
    row of zeros stands for a resource that a candidate doesn't have: it never excuses anyone. `slow` (n, k,
    w) what the latency objective counts and `watts` (n, k), at k loads, and where GPUs are told limits those
    of a replica; `late`, `handoff`, `hidden` (n, w)
    their part of a pair's TTFT, where that matters; all in seconds; `copies` of a cache.
    """

    @property
    def peak(self) -> Floats:
        """The most that any resource is used, (n, w), by the bound's rows."""
        return np.asarray(self.least.max(axis=1))

    def take(self, chosen: Ints) -> Needs:
        return Needs(*(x[chosen] for x in vars(self).values()))


def needs_of(pool: Sequence[Candidate], counts: Counts, punctual: bool) -> Needs:
    """Candidates as arrays; `punctual`: how late they are matters."""
    buckets = sorted({w for c in pool for w in next(iter(c.bounds.values()))})
    sent = np.array([[c.handoff_s.get(w, 0.0) for w in buckets] for c in pool])
    hidden = np.array([[_hidden(c, w) for w in buckets] for c in pool])
    seconds = np.array([_waits(c, buckets) for c in pool])
    light = np.array([c.lighter for c in pool]) if counts.grows and all(c.lighter for c in pool) else None
    if light is not None:
        light = light[:, :, [int(w) for w in buckets]] if counts.slow else light
    slow, watts = grown(counts, seconds, np.array([c.watts for c in pool]), light, (sent, hidden))
    if any(c.key.power for c in pool):  # what their GPUs may draw of a feed
        watts = np.hstack([watts, np.array([[c.gpus * (c.key.power or AS_THEY_COME)] for c in pool])])
    return Needs(
        gpus=np.array([c.gpus for c in pool]),
        joined=np.array([c.joined for c in pool]),
        use=_arrays([c.use for c in pool], buckets),
        least=_arrays([c.bounds for c in pool], buckets),
        slow=slow,
        watts=watts,
        late=np.array([c.late_s if punctual else 0.0 for c in pool]),
        handoff=np.array([max(c.handoff_s.values(), default=0.0) if punctual else 0.0 for c in pool]),
        hidden=hidden * punctual,
        copies=np.array([max(c.copies.values(), default=1.0) if punctual else 1.0 for c in pool]),
    )


def grown(
    counts: Counts, seconds: Floats, watts: Floats, light: Floats | None, handed: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """`slow` and `watts` of `Needs`, as far as they count: what grows with the load at lighter ones and the
    whole, `light` (n, k, w), or where that is not known `seconds` (n, k, w) and `watts` (n,) at the whole.
    `handed`: what a transfer takes and hides, (n, w) each."""
    slow, drawn = np.zeros_like(seconds), np.zeros((len(watts), 1))
    if counts.watts:
        drawn = watts[:, None] if light is None or counts.slow else light[:, :, 0]
    if counts.slow:
        slow = moved(seconds if light is None else light, *handed)
    return slow, drawn


def moved(slow: Floats, sent: Floats, hidden: Floats) -> Floats:
    """`slow` (n, k, w) with and without what a transfer takes (n, w) and hides, (n, 4 k, w): whoever is no
    slower in all is no slower with any partner."""
    waits = [0.0 * sent, sent, -hidden, sent - hidden]
    if not sent.any() and not hidden.any():
        return slow
    return np.concatenate([slow + wait[:, None] for wait in waits], axis=1)


def _arrays(of: Sequence[Mapping[str, Mapping[str, float]]], buckets: Sequence[str]) -> Floats:
    """Rows by resource and bucket as (n, resources, w): infinite where a bucket is not served."""
    use = np.zeros((len(of), max((len(rows) for rows in of), default=1) or 1, len(buckets)))
    for i, rows in enumerate(of):
        if not rows:
            use[i] = np.inf
        for j, row in enumerate(rows.values()):
            use[i, j] = [row.get(w, np.inf) for w in buckets]
    return use


def _hidden(c: Candidate, bucket: str) -> float:
    """Compute that the sending of a prompt's cache hides behind."""
    return c.overlap[bucket].hidden_s if bucket in c.overlap else 0.0


def _waits(c: Candidate, buckets: Sequence[str]) -> list[list[float]]:
    """Seconds to the first token and between tokens, (2, w): whoever is no slower in both answers no later,
    however long the answers are."""
    return [[c.ttft_s.get(w, np.inf) for w in buckets], [c.tpot_s] * len(buckets)]
