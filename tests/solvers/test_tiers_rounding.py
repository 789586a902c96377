"""Whole pieces: by hand and by every split of every point."""

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from solvers import tiers
from solvers.linear import Limits
from solvers.tiers import rounding
from solvers.tiers.point import seconds
from solvers.tiers.rounding import rounded
from tests.solvers.tier_cases import SMALL, problems


def splits(count, ways):
    """All ways to put `count` pieces in `ways` places."""
    if ways == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in splits(count - first, ways - 1):
            yield (first, *rest)


def best_by_every_split(p):
    best = 0.0
    for line in p.lines:
        for k in range(1, tiers.largest(p, line) + 1):
            point = tiers.at(line, k)
            pieces = [none + k * more for none, more in line.pieces.values()]
            for chosen in product(*(splits(n, len(of)) for n, of in zip(pieces, p.of_tensor, strict=True))):
                shares = np.concatenate([np.array(c) / sum(c) for c in chosen])
                if (point.bytes[:, :-1] @ shares + point.bytes[:, -1] <= p.rooms * (1 + 1e-9)).all():
                    best = max(best, point.tokens / seconds(p, point, shares))
    return best


def test_weights_in_quarters_leave_the_gpu_as_full():
    """By hand: 2 layers of 2 GB and 2 batches' cache fill the 6 GB as well as any shares."""
    r = rounded(SMALL, Limits())

    assert r.tokens_per_s == pytest.approx(2 / 3) == r.bound
    assert sum(n for (q, _), n in r.pieces.items() if q == "weights") == 4


@settings(max_examples=40, derandomize=True)
@given(p=problems(tensors=("weights", "cache"), tiers=("gpu", "cpu")))
def test_agrees_with_every_split(p):
    r, best = rounded(p, Limits()), best_by_every_split(p)

    assert (r.tokens_per_s or 0.0) == pytest.approx(best, rel=1e-6)
    assert r.bound is None or r.bound >= best * (1 - 1e-6)


def test_of_one_program_there_are_pieces_and_a_bound_for_all_others(monkeypatch):
    monkeypatch.setattr(rounding, "TRIED", 1)
    r = rounded(SMALL, Limits())

    assert r.point is not None
    assert r.bound >= 2 / 3


def test_beyond_the_end_no_point_is_tried_whatever_work_is_allowed():
    late = rounded(SMALL, Limits(work=200), until=time.perf_counter() - 1.0)

    assert (late.status, late.point) == ("time_limit", None)
    assert rounded(SMALL, Limits(work=200)).point is not None
