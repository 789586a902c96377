"""Drop candidates that another one makes pointless.

A dominates B when both live on the same class, k = gpus(B)/gpus(A) is whole and k replicas of A fit wherever
one of B stands
(`_fits`), they have the same role and transfer partners, and for every bucket w that B serves: A serves it, k
replicas of A need no
more of *any* of their resources for one request/s than B needs of *one* of its own, answer no later, and draw
no more watts.

Proof. Take a plan with B. Put k replicas of A where each B stood. Let f be B's traffic and b the one resource
of B: for every resource j
of A, sum_w use_A[j,w] f_w / k <= sum_w use_B[b,w] f_w <= n_B, since that holds bucket by bucket; so A carries
f within its own limits.
Objective and budgets (GPUs, dollars, watts) do not rise, latency does not either: a pair's is TTFT(prefill) +
transfer + a decode step, and
where A is smaller than B its slower transfer is charged to A in full (transfer <= what B's partner takes +
what A's NICs take). k replicas of
A have the NICs of one B. Hence some optimal plan has no B.
         QED

The resource b must be the same for all buckets of B; where B's two resources cross, nothing is dropped by it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.candidates.candidate import Candidate
from planner.cost.shape import Floats

FREE = 1e-12
"""Relative slack of comparisons: the same number computed twice may differ in its last digit."""


@dataclass(frozen=True)
class Counts:
    """What an objective or a budget makes count beside resources."""

    latency: bool
    watts: bool


def undominated(
    candidates: Sequence[Candidate],
    gpus_per_node: Mapping[str, int],
    counts: Counts,
    partners: Mapping[str, str] | None = None,
) -> list[Candidate]:
    """The candidates that no other makes pointless, in their first order; of equals the first stays.

    `partners`: a name for each prefill and decode candidate, the same for those that may pair with exactly
    the same others; where
    that is known, how late they are no longer matters. Without it pairs are only known to agree on the
    engine.
    """
    pools: dict[tuple[object, ...], list[Candidate]] = defaultdict(list)
    for c in candidates:
        pairs_as = None if c.role == "mixed" else c.engine if partners is None else partners[c.id]
        pools[c.node_class, c.role, pairs_as].append(c)
    kept: set[str] = set()
    for (node_class, role, _), pool in pools.items():
        late = np.zeros(len(pool))
        handoff = np.zeros(len(pool))
        if role != "mixed" and partners is None:
            late = np.array([c.late_s for c in pool])
            handoff = np.array([max(c.handoff_s.values()) for c in pool])
        kept |= {c.id for c in _survivors(pool, gpus_per_node[str(node_class)], counts, late, handoff)}
    return [c for c in candidates if c.id in kept]


def _survivors(
    pool: list[Candidate], node_gpus: int, counts: Counts, late: Floats, handoff: Floats
) -> list[Candidate]:
    """Each candidate is tried against those kept so far, smallest and most capable first."""
    buckets = sorted({w for c in pool for w in next(iter(c.use.values()))})
    use = _uses(pool, buckets)
    slow = np.array([[_latency(c, w) if counts.latency else 0.0 for w in buckets] for c in pool])
    watts = np.array([c.watts if counts.watts else 0.0 for c in pool])
    peak = use.max(axis=1)
    gpus = np.array([c.gpus for c in pool])
    order = np.lexsort((np.arange(len(pool)), (peak * gpus[:, None]).min(axis=1), gpus))
    alive: list[int] = []
    for b in order:
        serves = np.isfinite(peak[b])
        a = np.array(
            [i for i in alive if gpus[b] % gpus[i] == 0 and _fits(pool[i], pool[b], node_gpus)], dtype=int
        )
        times = gpus[b] // gpus[a]
        needs = peak[a][:, serves] / times[:, None]
        carries = np.zeros(len(a), dtype=bool)
        for row in use[b][:, serves]:
            carries |= (needs <= row * (1 + FREE)).all(axis=1)
        in_time = late[a] + np.where(times > 1, handoff[a], 0.0) <= late[b] * (1 + FREE)
        quick = (slow[a][:, serves] <= slow[b][serves] * (1 + FREE)).all(axis=1)
        if not (carries & in_time & quick & (watts[a] * times <= watts[b] * (1 + FREE))).any():
            alive.append(int(b))
    return [pool[i] for i in alive]


def _uses(pool: Sequence[Candidate], buckets: Sequence[str]) -> Floats:
    """Use of each resource, shape (candidates, resources, buckets); infinite where a bucket isn't served. A
    row of zeros stands for
    a resource that a candidate doesn't have: it never excuses anyone."""
    use = np.zeros((len(pool), max(len(c.use) for c in pool), len(buckets)))
    for i, c in enumerate(pool):
        for j, row in enumerate(c.use.values()):
            use[i, j] = [row.get(w, np.inf) for w in buckets]
    return use


def _fits(a: Candidate, b: Candidate, node_gpus: int) -> bool:
    """True when gpus(b)/gpus(a) replicas of `a` fit where one `b` stands: in its share of a node, or in its
    whole nodes."""
    if b.gpus <= node_gpus:
        return True  # a divides b: the same GPUs of the same node
    times, nodes = b.gpus // a.gpus, -(-b.gpus // node_gpus)
    if a.gpus <= node_gpus:
        return times <= nodes * (node_gpus // a.gpus)
    return times * -(-a.gpus // node_gpus) <= nodes and (b.joined or not a.joined)


def _latency(c: Candidate, bucket: str) -> float:
    """What the latency objective counts."""
    return c.ttft_s.get(bucket, np.inf) + c.tpot_s
