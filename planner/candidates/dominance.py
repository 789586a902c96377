"""Drop candidates that another one makes pointless.

A dominates B when both live on one class, k = gpus(B)/gpus(A) is whole and k replicas of A fit wherever
one B stands (`_fits`), they have the same role and transfer partners, and for every bucket w that B serves:
A serves it, k replicas of A need no more of *any* of their resources for one request/s than B needs of *one*
of its own, their GPUs may draw no more of a feed than B's, and where latency or watts count, they answer no
later and draw no more, at the whole of what each may carry and at the same shares of it: for A that is no
less traffic, so it holds at the same traffic, too. (What lies between those shares is taken to be as they
are.)

Proof. Take a plan with B. Put k replicas of A where each B stood. Let f be B's traffic and b the one resource
of B: for every resource j of A, sum_w use_A[j,w] f_w / k <= sum_w use_B[b,w] f_w <= n_B, since that holds
bucket by bucket; so A carries f within its own limits. Objective, budgets (GPUs, dollars, watts) and feeds
do not rise, latency does not either: a pair's is TTFT(prefill) + transfer + a decode step, and what A's
transfer takes longer than B's, and what it hides less of it behind its compute, is charged to A in full (a
transfer takes the longer of what either side's NICs take); A's ranks keep no more copies of a cache.
k replicas of A have the NICs of one B. Hence some optimal plan has no B. QED

The resource b must be the same for all buckets of B; where B's two resources cross, nothing is dropped by it.
Dollars are those of nodes: replicas with a price of their own (measured tables) are not compared here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from planner.candidates.candidate import Candidate
from planner.candidates.needs import Counts, Needs, Taken, needs_of
from planner.designs.shape import Floats, Ints

Asked = tuple[tuple[ref[Candidate], ...], int, Counts, bool]
"""A pool, which may be forgotten with its plan; GPUs of a node, what counts, whether it is to be on time."""

AT_ONCE = 16
"""Candidates that are compared with all others in one pass over arrays."""

MOST_CANDIDATES = 20_000
"""Of the pools whose survivors are kept: where one kind of replica after the other is left out, nearly all
are as before. Then all are forgotten."""

SURVIVORS: dict[Asked, frozenset[str]] = {}
"""By what was asked."""

FREE = 1e-12
"""Relative slack of comparisons: the same number computed twice may differ in its last digit."""


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
        pairs_as: object = None
        if c.role != "mixed":
            sent_last = tuple((w, o.last) for w, o in c.overlap.items())
            pairs_as = (c.engine, c.pairs_as, c.emitted, sent_last) if partners is None else partners[c.id]
        pools[c.node_class, c.role, pairs_as].append(c)
    kept: set[str] = set()
    for (node_class, role, _), pool in pools.items():
        room = gpus_per_node.get(str(node_class), pool[0].gpus)  # the same blocks on several classes
        punctual = role != "mixed" and partners is None
        kept |= {pool[0].id} if len(pool) == 1 else _kept(tuple(pool), room, counts, punctual)
    return [c for c in candidates if c.id in kept]


def _kept(pool: tuple[Candidate, ...], node_gpus: int, counts: Counts, punctual: bool) -> frozenset[str]:
    """The ids of those of a pool that stay, looked for once."""
    asked = (tuple(map(ref, pool)), node_gpus, counts, punctual)
    if (known := SURVIVORS.get(asked)) is not None:
        return known
    if sum(len(each[0]) for each in list(SURVIVORS)) + len(pool) > MOST_CANDIDATES:
        SURVIVORS.clear()
    SURVIVORS[asked] = found = _staying(pool, node_gpus, counts, punctual)
    return found


def _staying(pool: tuple[Candidate, ...], node_gpus: int, counts: Counts, punctual: bool) -> frozenset[str]:
    """The ids of those of a pool that stay."""
    copied = np.array([c.design.redundant > 0 for c in pool])
    return frozenset(pool[i].id for i in spared(needs_of(pool, counts, punctual), node_gpus, copied))


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
    rest, alive = _Rest.of(needs.take(left)), []
    while len(left):
        pointless = rest.pointless(min(AT_ONCE, len(left)), node_gpus)
        gone = np.zeros(len(left), dtype=bool)
        for i, own in enumerate(pointless):
            if not gone[i]:
                alive.append(int(left[i]))
                gone |= own
        keep = np.flatnonzero(~gone[len(pointless) :]) + len(pointless)
        left, rest = left[keep], rest.take(keep)
    return alive


@dataclass(frozen=True)
class _Rest(Taken):
    """n candidates of `Needs`, none with fewer GPUs than the first: n is the last axis, along which arrays
    are quick. `use` (resources, w, n) and `slow` are infinite where a bucket isn't served, so that no
    comparison fails there. What is alike for all has no rows: `slow` (w or 0, n), `watts` and `late`,
    `handoff` (1 or 0, n)."""

    peak: Floats
    least_peak: Floats

    @staticmethod
    def of(b: Needs) -> _Rest:
        use, peak, _ = _served(b.use)
        least, least_peak, unserved = _served(b.least)
        pairs = b.late.any() or b.handoff.any() or b.hidden.any()
        slow = np.where(unserved[:, None], np.inf, b.slow)
        return _Rest(
            gpus=b.gpus,
            joined=b.joined,
            use=use,
            peak=peak,
            least=least,
            least_peak=least_peak,
            slow=_rows(slow.reshape(len(slow), slow.shape[1] * slow.shape[2]), bool(b.slow.any())),
            watts=_rows(b.watts, bool(b.watts.any())),
            late=_rows(b.late[:, None], bool(pairs)),
            handoff=_rows(b.handoff[:, None], bool(pairs)),
            hidden=_rows(b.hidden, bool(pairs)),
            copies=_rows(b.copies[:, None], bool((b.copies != b.copies[:1]).any())),
        )

    def take(self, chosen: Ints) -> _Rest:
        return _Rest(*(x[..., chosen] for x in vars(self).values()))

    def pointless(self, first: int, node_gpus: int) -> NDArray[np.bool_]:
        """Which candidates each of the `first` dominates, of those after it, (first, n)."""
        slack, n = 1 + FREE, len(self.gpus)
        times = self.gpus // self.gpus[:first, None]
        many = np.maximum(times, 1)[:, None]

        def of(rows: Floats) -> Floats:
            """The rows of the first candidates, (first, rows, 1)."""
            return np.ascontiguousarray(rows[:, :first].T)[:, :, None]

        carries = (of(self.peak) / many <= self.use[:, None] * slack).all(axis=2).any(axis=0)
        carries &= (of(self.least_peak) / many <= self.least[:, None] * slack).all(axis=2).any(axis=0)
        less = np.maximum(self.hidden - of(self.hidden), 0.0).max(axis=1, initial=0.0)
        sent = of(self.handoff)
        added = np.where(sent > self.handoff * slack, sent, 0.0) + less[:, None]
        alike = (
            (of(self.slow) <= self.slow * slack).all(axis=1)
            & (of(self.late) + added <= self.late * slack).all(axis=1)
            & (of(self.copies) <= self.copies).all(axis=1)
            & (of(self.watts) * many <= self.watts * slack).all(axis=1)
        )
        after = np.arange(n) > np.arange(first)[:, None]
        return np.asarray(carries & alike & after & self._fits(times, node_gpus))

    def _fits(self, times: Ints, node_gpus: int) -> NDArray[np.bool_]:
        """True when gpus(b)/gpus(a) replicas of the first ones, a, fit where one b stands: in its share of a
        node, or in its whole nodes; (first, n)."""
        size, nodes = self.gpus[: len(times), None], -(-self.gpus // node_gpus)
        joined = self.joined[: len(times), None]
        small = times <= nodes * (node_gpus // size)
        large = (times * -(-size // node_gpus) <= nodes) & (self.joined | ~joined)
        within = self.gpus <= node_gpus  # a divides b: the same GPUs of the same node
        return np.asarray((self.gpus % size == 0) & (within | np.where(size <= node_gpus, small, large)))


def _served(use: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Rows (resources, w, n), the most of them (w, n), and where a bucket is not served, (n, w)."""
    peak = use.max(axis=1)
    unserved = ~np.isfinite(peak)
    rows = np.where(unserved[:, None, :], np.inf, use)
    return np.ascontiguousarray(rows.transpose(1, 2, 0)), np.ascontiguousarray(peak.T), unserved


def _rows(x: Floats, counted: bool) -> Floats:
    """(n, k) as (k, n), without rows where it does not count."""
    return np.ascontiguousarray(x.T if counted else x.T[:0])
