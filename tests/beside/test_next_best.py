"""The next best kinds of fleet against listing all fleets."""

import random
from itertools import combinations
from math import inf
from types import SimpleNamespace

import pytest

from planner.beside import next_best as module
from planner.beside.next_best import next_best
from planner.beside.rivals import Rival
from tests.beside.solved import Figures

KINDS = [("mixed", "c", "vllm", f"tp{n}") for n in range(5)]


def candidate(kind):
    return SimpleNamespace(role=kind[0], node_class=kind[1], engine=kind[2], runs=kind[3])


class Listed:
    """Fleets of all sets of kinds, with what each serves."""

    def __init__(self, seed, end=lambda banned: "proven"):
        draw = random.Random(seed)
        sets = [frozenset(some) for n in (1, 2, 3) for some in combinations(KINDS, n)]
        self.rates = {some: draw.uniform(1, 10) for some in sets}
        self.end, self.late, self.asked, self.slack = end, False, 0, (0, 0.3)
        self.best = self.fleet(max(self.rates, key=self.rates.get))

    def fleet(self, some, bound=None):
        return Figures(objective=self.rates[some], kinds=dict.fromkeys(some, 8), bound=bound)

    def where(self, keep):
        self.asked += 1
        kept = frozenset(k for k in KINDS if keep(candidate(k)))
        able = [some for some in self.rates if some <= kept]
        if not able:
            return Rival("infeasible")
        some = max(able, key=self.rates.get)
        how = self.end(frozenset(KINDS) - kept)
        return Rival(how, self.fleet(some, bound=1.01 * self.rates[some]) if how != "none_found" else None)

    def least_lost(self, keep):
        """Of the best fleet's rate and some `slack` less, as a relaxation would say."""
        kept = frozenset(k for k in KINDS if keep(candidate(k)))
        able = [rate for some, rate in self.rates.items() if some <= kept]
        slack = random.Random(repr(sorted(kept))).uniform(*self.slack)
        return 1 - max(able) / self.best.objective - slack if able else -inf

    def in_order(self):
        """All kinds of fleet from the best on: none with all kinds of one before."""
        shown = []
        for some in sorted(self.rates, key=self.rates.get, reverse=True):
            if not any(one <= some for one in shown):
                shown.append(some)
        return [self.rates[some] for some in shown[1:]]


@pytest.mark.parametrize("seed", range(60))
def test_they_are_the_best_of_all_in_order(seed, monkeypatch):
    monkeypatch.setattr(module, "MOST_SOLVES", 10**6)
    listed = Listed(seed)
    found = [fleet.objective for _, fleet in next_best(listed, 4)]

    assert found == pytest.approx(listed.in_order()[:4])


@pytest.mark.parametrize("how", ["stopped", "none_found"])
@pytest.mark.parametrize("seed", range(20))
def test_the_list_ends_where_a_part_could_hold_a_better_one(seed, how):
    """Of the parts without the kind that the next best lacks, nothing is known to the end."""
    listed = Listed(seed)
    ((_, first),) = next_best(Listed(seed), 1)
    (missing, *_) = sorted(listed.best.kinds.keys() - first.kinds.keys())
    listed.end = lambda banned: how if missing in banned else "proven"

    assert all(fleet.objective > first.objective for _, fleet in next_best(listed, 4))


@pytest.mark.parametrize("seed", range(40))
def test_kinds_of_a_fleet_before_and_some_more_are_no_other_fleet(seed, monkeypatch):
    """Solves within a gap may return such a fleet."""
    monkeypatch.setattr(module, "MOST_SOLVES", 10**6)
    listed, draw = Listed(seed), random.Random(seed)
    exact = dict(listed.rates)

    def roughly(keep):
        listed.rates = {some: rate * draw.uniform(0.7, 1) for some, rate in exact.items()}
        return Listed.where(listed, keep)

    monkeypatch.setattr(listed, "where", roughly)
    shown = [listed.best.kinds.keys(), *(fleet.kinds.keys() for _, fleet in next_best(listed, 4))]

    assert not any(before <= after for before, after in combinations(shown, 2))


def test_time_that_is_over_ends_the_list():
    listed = Listed(0)
    listed.late = True

    assert next_best(listed, 2) == []
    assert listed.asked == 0


def test_no_more_is_solved_than_is_needed():
    listed = Listed(1)
    listed.slack = 0, 0
    next_best(listed, 1)

    assert len(listed.best.kinds) > listed.asked == 1
