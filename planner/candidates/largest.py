"""The largest batch of every design at which some bucket keeps the promise, all designs and roles at once.

Bisection asks ten times for few points; a pass over arrays costs about the same for one point a design as for
several. So every round tries k batches and keeps the section above the highest that is good: a range of d
batches takes log(d) / log(k + 1) rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.candidates.points import Role, Setup, batched, decode_steps
from planner.cost.queueing import work_s
from planner.cost.shape import Floats, Ints, StepTimes

MOST_SEQUENCES = 1024
"""Largest batch a server is planned with: what engines capture graphs and size buffers for."""

MOST_TRIES = 10
"""Batches tried a round: 10 find the one of 1,024 in three rounds."""

MOSTLY = 0.5
"""Share of a lone request's time from which on it counts as always there."""

FEW = 8
"""Batches below one that are tried where one sequence at all times is too much."""

POINTS = 2000
"""Points a pass from which on a pass takes longer the more there are."""


def largest(s: Setup, index: Ints, roles: Sequence[Role]) -> Floats:
    """The largest batch of a server of each design of `index` in each of `roles` (mixed or decode) at which
    some bucket keeps the promise, shape (roles, designs); below one where only `one_at_a_time` does, 0 where
    not even that."""
    low = np.zeros((len(roles), len(index)), dtype=np.int64)
    high = np.full_like(low, MOST_SEQUENCES + 1)
    while (open_ := high - low > 1).any():
        role, design = np.nonzero(open_)
        tries = between(low[open_], high[open_], max(1, min(MOST_TRIES, POINTS // len(role))))
        good = _good(s, index[design], role, tries, roles)
        best = np.where(good, tries, low[open_][:, None]).max(axis=1)
        above = np.where(tries > best[:, None], tries, high[open_][:, None]).min(axis=1)
        low[open_], high[open_] = best, above
    batch = low.astype(np.float64)
    role, design = np.nonzero(low == 0)
    least = one_at_a_time(s, index[design])
    few = least < 1
    role, design = role[few], design[few]
    parts = np.geomspace(least[few], 1.0, FEW + 1, axis=1)[:, :-1]
    good = _good(s, index[design], role, parts, roles)
    batch[role, design] = np.where(good, parts, 0.0).max(axis=1, initial=0.0)
    return batch


def one_at_a_time(s: Setup, index: Ints) -> Floats:
    """Sequences (n,) that a server decodes on average where it has one request at a time: the share of its
    time that a request decodes, or one where that is most of it."""
    step, mix = decode_steps(s, index, np.ones(len(index))), s.mix
    prompt = work_s(step, mix.new, mix.isl, mix.osl, "prefill", s.token_budget) @ mix.share
    decode_s = mix.steps * step.t0_s
    share = decode_s / (decode_s + prompt)
    return np.where(share < MOSTLY, share, 1.0)


def between(low: Ints, high: Ints, count: int) -> Ints:
    """`count` batches evenly inside (low, high), shape (m, count); repeated where there are fewer.

    >>> between(np.array([0, 0]), np.array([1025, 3]), 4).tolist()
    [[205, 410, 615, 820], [1, 1, 1, 2]]
    """
    step = (high - low)[:, None] * np.arange(1, count + 1) // (count + 1)
    return np.asarray(low[:, None] + np.maximum(step, 1))


def _good(
    s: Setup, index: Ints, role: Ints, tries: Ints | Floats, roles: Sequence[Role]
) -> NDArray[np.bool_]:
    """Whether any bucket keeps the promise at `tries` (m, count) on the designs `index` (m,), each in its
    `role` (m,) of `roles`."""
    each = np.repeat(index, tries.shape[1])
    batch = tries.ravel().astype(np.float64)
    step = decode_steps(s, each, batch)
    good = np.zeros(len(each), dtype=bool)
    for i, name in enumerate(roles):
        at = np.repeat(role == i, tries.shape[1])
        if at.any():
            points = batched(s, each[at], batch[at], name, _of(step, at))
            good[at] = points.meets.any(axis=1)
    return good.reshape(tries.shape)


def _of(step: StepTimes, at: NDArray[np.bool_]) -> StepTimes:
    return StepTimes(*(_pick(x, at) for x in vars(step).values()))


def _pick(x: Floats, at: NDArray[np.bool_]) -> Floats:
    return np.asarray(x[at])
