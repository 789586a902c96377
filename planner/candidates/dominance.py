"""Drop candidates that another one makes pointless.

A dominates B when both live on the same class, k = gpus(B)/gpus(A) is whole and k replicas of A fit wherever one of B stands
(`_fits`), they have the same role and transfer partners, and for every bucket w that B serves: A serves it, k replicas of A need no
more of *any* of their resources for one request/s than B needs of *one* of its own, answer no later, and draw no more watts.

Proof. Take a plan with B. Put k replicas of A where each B stood. Let f be B's traffic and b the one resource of B: for every resource j
of A, sum_w use_A[j,w] f_w / k <= sum_w use_B[b,w] f_w <= n_B, since that holds bucket by bucket; so A carries f within its own limits.
Objective and budgets (GPUs, dollars, watts) do not rise, latency does not either: a pair's is TTFT(prefill) + transfer + a decode step, and
where A is smaller than B its slower transfer is charged to A in full (transfer <= what B's partner takes + what A's NICs take). k replicas of
A have the NICs of one B. Hence some optimal plan has no B.                                                             QED

The resource b must be the same for all buckets of B; where B's two resources cross, nothing is dropped by it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.candidates.candidate import Candidate

FREE = 1e-12
"""Relative slack of comparisons: the same number computed twice may differ in its last digit."""


@dataclass(frozen=True)
class Counts:
    """What an objective or a budget makes count beside resources."""

    latency: bool
    watts: bool


def undominated(candidates: Sequence[Candidate], gpus_per_node: Mapping[str, int], counts: Counts) -> list[Candidate]:
    """The candidates that no other makes pointless, in their first order; of equals the first stays."""
    pools: dict[tuple[object, ...], list[Candidate]] = defaultdict(list)
    for c in candidates:
        partners = (c.engine,) if c.role != "mixed" else ()  # pairs agree on the engine
        pools[c.node_class, c.role, *partners].append(c)
    kept: set[str] = set()
    for (node_class, *_), pool in pools.items():
        kept |= {c.id for c in _survivors(pool, gpus_per_node[str(node_class)], counts)}
    return [c for c in candidates if c.id in kept]


def _survivors(pool: list[Candidate], node_gpus: int, counts: Counts) -> list[Candidate]:
    """Each candidate is tried against those kept so far, smallest and most capable first."""
    buckets = sorted({w for c in pool for w in next(iter(c.use.values()))})
    most = max(len(c.use) for c in pool)
    use = np.zeros((len(pool), most, len(buckets)))  # a row of zeros stands for none: it never excuses anyone
    for i, c in enumerate(pool):
        for j, row in enumerate(c.use.values()):
            use[i, j] = [row.get(w, np.inf) for w in buckets]
    late = np.array([[_late(c, w, counts) for w in buckets] for c in pool])
    handoff = np.array([[c.handoff_s.get(w, 0.0) if c.role != "mixed" else 0.0 for w in buckets] for c in pool])
    watts = np.array([c.watts if counts.watts else 0.0 for c in pool])
    peak = use.max(axis=1)
    gpus = np.array([c.gpus for c in pool])
    order = np.lexsort((np.arange(len(pool)), (peak * gpus[:, None]).min(axis=1), gpus))
    alive: list[int] = []
    for b in order:
        serves = np.isfinite(peak[b])
        a = np.array([i for i in alive if gpus[b] % gpus[i] == 0 and _fits(pool[i], pool[b], node_gpus)], dtype=int)
        times = gpus[b] // gpus[a]
        needs = peak[a][:, serves] / times[:, None]
        carries = np.zeros(len(a), dtype=bool)
        for row in use[b][:, serves]:
            carries |= (needs <= row * (1 + FREE)).all(axis=1)
        slower = np.where((times > 1)[:, None], handoff[a], 0.0)
        prompt = ((late[a] + slower)[:, serves] <= late[b][serves] * (1 + FREE)).all(axis=1)
        if not (carries & prompt & (watts[a] * times <= watts[b] * (1 + FREE))).any():
            alive.append(int(b))
    return [pool[i] for i in alive]


def _fits(a: Candidate, b: Candidate, node_gpus: int) -> bool:
    """True when gpus(b)/gpus(a) replicas of `a` fit where one `b` stands: in its share of a node, or in its whole nodes."""
    if b.gpus <= node_gpus:
        return True  # a divides b: the same GPUs of the same node
    times, nodes = b.gpus // a.gpus, -(-b.gpus // node_gpus)
    if a.gpus <= node_gpus:
        return times <= nodes * (node_gpus // a.gpus)
    return times * -(-a.gpus // node_gpus) <= nodes and (b.joined or not a.joined)


def _late(c: Candidate, bucket: str, counts: Counts) -> float:
    """Seconds that must not rise: all that a pair's TTFT or the objective counts."""
    return c.ttft_s.get(bucket, np.inf) + c.tpot_s if counts.latency else c.late_s
