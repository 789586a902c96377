"""What one server may take, as rows of the fleet's program: exact for the plan, in its favour for the bound.

With the linear step of one operating point, steps last T = t0 / (1 - ρ), ρ = Σ_w work_w λ_w. So

    busy     ρ <= ρ_j                      a limit on T, that of the level j
    kv       Σ λ k_w T <= 1                as Σ (work_w + k_w t0) λ_w <= 1: linear in the load
    tokens   Σ λ tokens_w T <= budget      alike

A *level* is the load at which a bucket's promise breaks. Up to it a server serves all buckets that bear
more: with W buckets there are W levels at most, and a column each. Under the workload's own mix a column is
exact, and a server of one bucket has just the one. Under other mixes a server does a little more or less,
as its step bends and short prompts wait for long ones. So the bound's rows, `least`, take of every bucket
the smallest share that it fills under any of the mixes looked at: the workload's, and each bucket almost
alone; and serve what any of them lets a server serve. They are looser where mixes differ; what is left
between is printed as gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.candidates.fastest import fastest
from planner.candidates.largest import Asked, busiest, largest
from planner.candidates.points import Points, batched, prefilled
from planner.candidates.setup import Role, Setup, prefill_parts
from planner.designs.shape import Floats, Ints

ALIKE = 1.02
"""Levels nearer to each other than this are one."""

FEW = 4
"""Buckets that are looked at almost alone."""


@dataclass(frozen=True)
class Columns:
    """m columns of one setup in one role: `points` (m), `use` and `least` (m, resources, w) of one server's
    resources that one request/s of a bucket fills, infinite where it is not served; `within_s` (m,) the
    edge at which each stands, 0 where there are none. `least` may serve more buckets than `use`."""

    points: Points
    use: Floats
    least: Floats
    within_s: Floats

    def take(self, chosen: Ints) -> Columns:
        """Some of them."""
        return Columns(self.points.take(chosen), self.use[chosen], self.least[chosen], self.within_s[chosen])


def decoding(s: Setup, index: Ints, asked: Asked) -> Iterator[tuple[Role, Columns]]:
    """Columns of servers that decode, by role: mixed within the promise, or decode with a step within each of
    the seconds `asked`."""
    own = [s, *(_company(s, w) for w in alone(s))]
    batches = [largest(one, index, asked) for one in own]
    for role in dict.fromkeys(role for role, _ in asked):
        at = [i for i, (name, _) in enumerate(asked) if name == role]
        every, shape = np.tile(index, len(at)), (len(at) * len(index), len(s.mix.share))
        (low, high), *others = ([load[at].reshape(shape) for load in both] for both in batches)
        which, columns = (_alike if _several(s) else _single)(s, every, role, low, high, others)
        limits = np.array([limit for name, limit in asked if name == role])
        within = limits[which // len(index)] if role == "decode" else np.zeros(len(which))
        yield role, replace(columns, within_s=within)


def prefilling(s: Setup, index: Ints, within_s: Floats) -> Columns:
    """Columns of servers that only prefill, with their own TTFT within each of `within_s` (k,) cautious
    seconds."""
    parts, several = prefill_parts(s, index), _several(s)
    low, high = busiest(s, index, within_s)
    looked = alone(s) if several else []
    others = [busiest(_company(s, w), index, within_s)[1] for w in looked]
    bears = np.maximum.reduce([high, *others])  # (k, n, w)
    edge, design, bucket = np.nonzero(_first_alike(low))
    level, top = low[edge, design, bucket], high[edge, design, bucket]
    points = prefilled(s, parts, design, level)
    use = _rows(s, points, "prefill")
    least = use.copy()
    least[:, 0] = (_packed(s, points) if several else points.work_s) / top[:, None]
    exact = least.copy()
    for w, most in zip(looked, others, strict=True):
        least[:, 0, w] *= top / np.maximum(top, most[edge, design, w])
    as_the_others(least, exact, looked)
    serves = low[edge, design] >= level[:, None] * (1 - 1e-12)
    might = bears[edge, design] >= top[:, None] * (1 - 1e-12)
    return Columns(points, _only(use, serves), _only(least, might | serves), within_s[edge])


def _packed(s: Setup, p: Points) -> Floats:
    """Time that one request/s of each bucket fills where steps are always full, (m, w): prompts of one length
    leave a rest of the budget, a mix need not."""
    budget = s.token_budget * p.step.stages[:, None]
    steps = np.where(
        s.mix.new <= budget, 1 / np.maximum(budget // s.mix.new, 1.0), np.ceil(s.mix.new / budget)
    )
    return np.asarray(p.work_s - p.step.t0_s[:, None] * np.maximum(steps - s.mix.new / budget, 0.0))


def _single(
    s: Setup, index: Ints, role: Role, low: Floats, high: Floats, others: Sequence[Sequence[Floats]]
) -> tuple[Ints, Columns]:
    """One bucket: the largest batch that keeps its promise, or a smaller one that serves more, is the whole
    truth. The row of each column, too."""
    served = np.flatnonzero(s.mix.share > 0)
    least_batch, most_batch = low[:, served].max(axis=1), high[:, served].max(axis=1)
    alive = np.flatnonzero(least_batch > 0)
    batch, most = fastest(s, index[alive], role, least_batch[alive])
    if s.promise.percentile != "mean":  # of TPOT it may rise where load falls
        batch = least_batch[alive]
    points = batched(s, index[alive], batch, role)
    use = _only(_rows(s, points, role), np.broadcast_to(s.mix.share > 0, points.excess.shape))
    sure = (least_batch / np.maximum(most_batch, 1e-30))[alive]
    sure = (sure * points.rate / np.maximum(most, points.rate))[:, None, None]
    return alive, Columns(points, use, use * sure, np.zeros(len(alive)))


def _alike(
    s: Setup, index: Ints, role: Role, low: Floats, high: Floats, others: Sequence[Sequence[Floats]]
) -> tuple[Ints, Columns]:
    """Several buckets: a column a level, with rows in the bound's favour beside the exact ones; `others`: the
    largest batches of each bucket in the company of each of `alone`, from below and from above."""
    design, bucket = np.nonzero(_first_alike(low))
    level = low[design, bucket]
    points = batched(s, index[design], level, role)
    use = _rows(s, points, role)
    serves = low[design] >= level[:, None] * (1 - 1e-12)
    top = batched(s, index[design], _last_alike(high, low)[design, bucket], role)
    looked, bears = alone(s), _longest(s, index, high, role)  # (n, w) step times that each bucket bears
    companies = [_company(s, w) for w in looked]
    for own, (_, most) in zip(companies, others, strict=True):
        bears = np.maximum(bears, _longest(own, index, most, role))
    might = bears[design] >= _step_s(top)[:, None] * (1 - 1e-9)
    step_s = _step_s(top)
    step_s = np.where(_in_time(points, bucket), np.maximum(step_s, bears[design].max(axis=1)), step_s)
    exact = np.minimum(_rows(s, top, role), use)  # beyond a wall `top` may be far worse
    exact[:, 0] = np.minimum(exact[:, 0], _within(top.work_s, top.step.t0_s, step_s))
    least = exact.copy()
    for w, own, (kept, _) in zip(looked, companies, others, strict=True):
        at = batched(
            own, index, np.maximum(kept[:, w], 1e-3), role
        )  # above a wall nothing is as it was below
        least[..., w] = np.minimum(least[..., w], _loaded(own, at, role, w, design, step_s, kept[:, w] > 0))
    as_the_others(least, exact, looked)
    return design, Columns(points, _only(use, serves), _only(least, might | serves), np.zeros(len(level)))


def as_the_others(least: Floats, exact: Floats, looked: Sequence[int]) -> None:
    """Buckets that were not `looked` at alone take as much less, of `least` (m, resources, w), as the least
    of those that were."""
    if 0 < len(looked) < least.shape[2]:
        whole = exact[..., looked]
        less = (least[..., looked] / np.where(whole > 0, whole, 1.0)).min(
            axis=2, keepdims=True, where=whole > 0, initial=1.0
        )
        rest = np.setdiff1d(np.arange(least.shape[2]), looked)
        least[..., rest] *= less


def _loaded(
    own: Setup, at: Points, role: Role, w: int, design: Ints, step_s: Floats, able: NDArray[np.bool_]
) -> Floats:
    """Rows (m, resources) of bucket `w` by itself on the designs of the columns, at steps as long as theirs;
    infinite where it can't be. `at`: a point a design (n,)."""
    rows = _rows(own, at, role)[:, :, w][design]
    t0 = np.maximum(at.step.t0_s, 1e-6)[design]
    longest = np.minimum(step_s, _step_s(at)[design])
    rows[:, 0] = at.work_s[design, w] / np.maximum(1 - t0 / longest, 1e-9)
    return np.where(able[design][:, None], rows, np.inf)


def _in_time(largest: Points, bucket: Ints) -> NDArray[np.bool_]:
    """Whether the largest loads (m,) that `bucket` (m,) bears keep its times with room: something else is
    full there, and a mix that takes less of it may make longer steps."""
    one = np.arange(len(bucket))
    return np.asarray(np.maximum(largest.late, largest.slow)[one, bucket] < -ROOMY)


def _within(work_s: Floats, t0_s: Floats, step_s: Floats) -> Floats:
    """Shares of the time (m, w) that one request/s fills where steps last up to `step_s` (m,)."""
    return np.asarray(work_s / np.maximum(1 - t0_s / step_s, 1e-9)[:, None])


def _longest(s: Setup, index: Ints, high: Floats, role: Role) -> Floats:
    """The step times (n, w) of the batches `high` (n, w) that each bucket bears; 0 where it bears none."""
    design, bucket = np.nonzero(high > 0)
    out = np.zeros_like(high)
    if len(design):
        out[design, bucket] = _step_s(batched(s, index[design], high[design, bucket], role))
    return out


def _step_s(points: Points) -> Floats:
    """Mean step, (m,): t0 / (1 - ρ)."""
    return np.asarray(points.step.t0_s / np.maximum(1 - points.load, 1e-12))


def _rows(s: Setup, p: Points, role: Role) -> Floats:
    """Shares of a server's resources that one request/s of each bucket fills, (m, resources, w): time, KV
    room, tokens of a step; room, reading and writing of a place beside it."""
    load = p.load[:, None]
    busy = np.divide(p.work_s, load, out=np.where(p.work_s > 0, np.inf, 0.0), where=load > 0)
    if role == "prefill":
        rows = [busy, p.kv_share]
        rows += [np.zeros_like(busy)] if len(s.beside) else []
    else:
        rest = (1 - p.load)[:, None]
        new = s.mix.new if role == "mixed" else 0.0
        budget = s.token_budget * np.reshape(p.step.stages, (-1, 1))
        tokens = (s.decoded + new) * _step_s(p)[:, None] / budget
        rows = [busy, p.work_s + rest * p.kv_share, p.work_s + rest * tokens]
    return np.asarray(np.stack([*rows, *(row[p.index] for row in s.beside)], axis=1))


def _only(rows: Floats, serves: NDArray[np.bool_]) -> Floats:
    """Infinite where a bucket is not served."""
    return np.where(serves[:, None, :], rows, np.inf)


def _several(s: Setup) -> bool:
    return int(np.count_nonzero(s.mix.share)) > 1


def alone(s: Setup) -> list[int]:
    """Buckets that are looked at almost alone: the most unlike of many; none at levels of keeping cache, of
    which there are many."""
    there = np.flatnonzero(s.mix.share > 0)
    if s.keep is not None or len(there) == 1:
        return []
    if len(there) <= FEW:
        return list(there.tolist())
    isl, osl = s.mix.isl[there], s.mix.osl[there]
    ends = (isl.argmax(), osl.argmax(), (isl + osl).argmin(), (isl / osl).argmin())
    return sorted({int(there[i]) for i in ends})


def _company(s: Setup, w: int) -> Setup:
    """Bucket `w` almost alone: of the others one request at a time."""
    share = np.where(np.arange(len(s.mix.share)) == w, 1.0, RARE * (s.mix.share > 0))
    return replace(s, mix=replace(s.mix, share=share / share.sum()))


ROOMY = 1e-3
"""Share of a limit that is left where the limit is not what binds."""

RARE = 1e-6
"""Share of the other buckets where one is almost alone."""


def _first_alike(low: Floats) -> NDArray[np.bool_]:
    """Picks from each row's loads (…, w) one of each level, the smallest of those that are nearly the
    same."""
    order = np.argsort(low, axis=-1)
    sorted_ = np.take_along_axis(low, order, -1)
    chosen, last = np.zeros(low.shape, dtype=bool), np.zeros(low.shape[:-1])
    for j in range(low.shape[-1]):
        now = sorted_[..., j]
        new = now > last * ALIKE
        chosen[..., j] = new
        last = np.where(new, now, last)
    out = np.zeros_like(chosen)
    np.put_along_axis(out, order, chosen, -1)
    return out


def _last_alike(high: Floats, low: Floats) -> Floats:
    """The largest load, from above, of those in the level that each of `low` (n, w) begins."""
    near = low[:, None, :] <= low[:, :, None] * ALIKE
    return np.asarray(np.where(near & (low > 0)[:, None, :], high[:, None, :], 0.0).max(axis=2))
