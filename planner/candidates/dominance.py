"""Drop candidates that another one makes pointless.

A dominates B when both live on one class, k = gpus(B)/gpus(A) is whole and k replicas of A fit wherever
one B stands (`_fits`), they have the same role and transfer partners, and for every bucket w that B serves:
A serves it, k replicas of A need no more of *any* of their resources for one request/s than B needs of *one*
of its own, answer no later, and draw no more watts.

Proof. Take a plan with B. Put k replicas of A where each B stood. Let f be B's traffic and b the one resource
of B: for every resource j of A, sum_w use_A[j,w] f_w / k <= sum_w use_B[b,w] f_w <= n_B, since that holds
bucket by bucket; so A carries f within its own limits. Objective and budgets (GPUs, dollars, watts) do not
rise, latency does not either: a pair's is TTFT(prefill) + transfer + a decode step, and where A is smaller
than B its slower transfer is charged to A in full (transfer <= what B's partner takes + what A's NICs take),
and what A hides less of it behind its compute than B; A's ranks keep no more copies of a cache.
k replicas of A have the NICs of one B. Hence some optimal plan has no B. QED

The resource b must be the same for all buckets of B; where B's two resources cross, nothing is dropped by it.
Dollars are those of nodes: replicas with a price of their own (measured tables) are not compared here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.candidates.candidate import Candidate
from planner.cost.shape import Floats, Ints

FREE = 1e-12
"""Relative slack of comparisons: the same number computed twice may differ in its last digit."""


@dataclass(frozen=True)
class Counts:
    """What an objective or a budget makes count beside resources."""

    latency: bool
    watts: bool


@dataclass(frozen=True)
class Needs:
    """What n candidates of one class, role and set of partners take, as arrays (n,), buckets w.

    `use` (n, resources, w): infinite where a bucket isn't served; a row of zeros stands for a resource that a
    candidate doesn't have: it never excuses anyone. `slow` (n, w) what the latency objective counts; `late`,
    `handoff`, `hidden` (n, w) their part of a pair's TTFT, where that matters; all in seconds; `copies` of a
    cache.
    """

    gpus: Ints
    joined: NDArray[np.bool_]
    use: Floats
    slow: Floats
    watts: Floats
    late: Floats
    handoff: Floats
    hidden: Floats
    copies: Floats

    @property
    def peak(self) -> Floats:
        """The most that any resource is used, (n, w)."""
        return np.asarray(self.use.max(axis=1))

    def take(self, chosen: Ints) -> Needs:
        return Needs(*(x[chosen] for x in vars(self).values()))


def undominated(
    candidates: Sequence[Candidate],
    gpus_per_node: Mapping[str, int],
    counts: Counts,
    partners: Mapping[str, str] | None = None,
) -> list[Candidate]:
    """The candidates that no other makes pointless, in their first order; of equals the first stays.

    `partners`: a name for each prefill and decode candidate, the same for those that may pair with exactly
    the same others; where that is known, how late they are no longer matters. Without it pairs are only known
    to agree on the engine.
    """
    pools: dict[tuple[object, ...], list[Candidate]] = defaultdict(list)
    for c in candidates:
        pairs_as = None if c.role == "mixed" else c.engine if partners is None else partners[c.id]
        pools[c.node_class, c.role, pairs_as].append(c)
    kept: set[str] = set()
    for (node_class, role, _), pool in pools.items():
        needs = _needs(pool, counts, punctual=role != "mixed" and partners is None)
        room = gpus_per_node.get(str(node_class), pool[0].gpus)  # the same blocks on several classes
        copied = np.array([c.design.redundant > 0 for c in pool])
        kept |= {pool[i].id for i in spared(needs, room, copied)}
    return [c for c in candidates if c.id in kept]


def spared(needs: Needs, node_gpus: int, copied: NDArray[np.bool_]) -> list[int]:
    """The survivors, and of those without `copied` experts (n,) the ones that none of their own makes
    pointless: fleets without copies are looked for, too."""
    alive = set(survivors(needs, node_gpus))
    if copied.any() and not copied.all():
        plain = np.flatnonzero(~copied).astype(np.int64)
        alive |= set(plain[survivors(needs.take(plain), node_gpus)].tolist())
    return sorted(alive)


def survivors(needs: Needs, node_gpus: int) -> list[int]:
    """Which of `needs` none makes pointless: smallest and most capable first, each survivor takes out what it
    dominates of the rest."""
    per_gpu = (needs.peak * needs.gpus[:, None]).min(axis=1)
    unserved = np.isinf(needs.peak).sum(axis=1)
    left = np.lexsort((np.arange(len(per_gpu)), unserved, per_gpu, needs.gpus)).astype(np.int64)
    rest, alive = needs.take(left), []
    while len(left):
        alive.append(int(left[0]))
        keep = np.flatnonzero(~pointless(rest, node_gpus)[1:]) + 1
        left, rest = left[keep], rest.take(keep)
    return alive


def pointless(b: Needs, node_gpus: int) -> NDArray[np.bool_]:
    """Which of `b` the first dominates, (n,); none has fewer GPUs than the first. The first itself: True."""
    times, peak = b.gpus // b.gpus[0], b.peak
    unserved = ~np.isfinite(peak)
    with np.errstate(invalid="ignore"):
        needs = peak[0] / times[:, None]
        carries = ((needs[:, None, :] <= b.use * (1 + FREE)) | unserved[:, None, :]).all(axis=2).any(axis=1)
        quick = ((b.slow[0] <= b.slow * (1 + FREE)) | unserved).all(axis=1)
    less = np.maximum(b.hidden - b.hidden[0], 0.0).max(axis=1, initial=0.0)
    in_time = b.late[0] + np.where(times > 1, b.handoff[0], 0.0) + less <= b.late * (1 + FREE)
    in_time &= b.copies[0] <= b.copies
    frugal = b.watts[0] * times <= b.watts * (1 + FREE)
    return np.asarray(carries & quick & in_time & frugal & _fits(b, times, node_gpus))


def _fits(b: Needs, times: Ints, node_gpus: int) -> NDArray[np.bool_]:
    """True when gpus(b)/gpus(a) replicas of the first, a, fit where one b stands: in its share of a node, or
    in its whole nodes."""
    size, nodes = int(b.gpus[0]), -(-b.gpus // node_gpus)
    if size <= node_gpus:
        fits = times <= nodes * (node_gpus // size)
    else:
        fits = (times * -(-size // node_gpus) <= nodes) & (b.joined | ~b.joined[0])
    within = b.gpus <= node_gpus  # a divides b: the same GPUs of the same node
    return np.asarray((b.gpus % size == 0) & (within | fits))


def _needs(pool: Sequence[Candidate], counts: Counts, punctual: bool) -> Needs:
    """Candidates as arrays; `punctual`: how late they are matters."""
    buckets = sorted({w for c in pool for w in next(iter(c.use.values()))})
    use = np.zeros((len(pool), max(len(c.use) for c in pool), len(buckets)))
    for i, c in enumerate(pool):
        for j, row in enumerate(c.use.values()):
            use[i, j] = [row.get(w, np.inf) for w in buckets]
    return Needs(
        gpus=np.array([c.gpus for c in pool]),
        joined=np.array([c.joined for c in pool]),
        use=use,
        slow=np.array([[_latency(c, w) if counts.latency else 0.0 for w in buckets] for c in pool]),
        watts=np.array([c.watts if counts.watts else 0.0 for c in pool]),
        late=np.array([c.late_s if punctual else 0.0 for c in pool]),
        handoff=np.array([max(c.handoff_s.values(), default=0.0) if punctual else 0.0 for c in pool]),
        hidden=np.array([[_hidden(c, w) if punctual else 0.0 for w in buckets] for c in pool]),
        copies=np.array([max(c.copies.values(), default=1.0) if punctual else 1.0 for c in pool]),
    )


def _hidden(c: Candidate, bucket: str) -> float:
    """Compute that the sending of a prompt's cache hides behind."""
    return c.overlap[bucket].hidden_s if bucket in c.overlap else 0.0


def _latency(c: Candidate, bucket: str) -> float:
    """What the latency objective counts."""
    return c.ttft_s.get(bucket, np.inf) + c.tpot_s
