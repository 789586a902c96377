"""Tightening, on toy plans whose cost and replay are known."""

import pytest

from planner.percentiles.tighten import ROUNDS, Tight, Trial, reach, tightened, tighter


class Toy:
    """Servers of 1 request/s for a dollar each; TTFT is broken below `servers` of them, TPOT unless its limit
    is at most `tpot`. From `most` on there are none."""

    def __init__(self, servers=7, tpot=1.0, most=100):
        self.servers, self.tpot, self.most, self.asked = servers, tpot, most, []

    def __call__(self, tight):
        self.asked.append(tight)
        bought = -(-tight.rate_rps // 1)
        if bought > self.most:
            return None
        ttft = 0.9 if bought >= self.servers else self.servers / bought
        return Trial(tight, bought, float(bought), ttft, tight.tpot / self.tpot)


def never():
    return False


def test_what_holds_at_once_is_asked_for_once():
    toy = Toy(servers=2)
    end = tightened(toy, Tight(2.0), 50.0, never)

    assert (end.kept.plan, end.broke, end.tried) == (2, None, 1)


@pytest.mark.parametrize("burst_rps", [3.0, 7.0, 30.0])
def test_the_cheapest_that_holds_is_found_between_the_one_that_broke_and_the_one_that_held(burst_rps):
    end = tightened(Toy(servers=7), Tight(2.0), burst_rps, never)

    assert end.kept.kept
    assert 7 <= end.kept.plan <= 8
    assert end.broke.plan < end.kept.plan


def test_a_broken_tpot_tightens_its_limit_and_leaves_the_rate():
    toy = Toy(servers=2, tpot=0.6)
    end = tightened(toy, Tight(2.0), 50.0, never)

    assert end.kept.asked.rate_rps == pytest.approx(2.0)
    assert 0.55 <= end.kept.asked.tpot <= 0.6


def test_where_more_rate_does_not_help_the_limit_tightens():
    before = Trial(Tight(2.0), 0, 2.0, 1.5, 0.5)
    after = Trial(Tight(3.0), 0, 3.0, 1.5, 0.5)

    assert tighter(before, None, 3.0).ttft == 1.0
    assert tighter(after, before, 3.0).ttft < 0.7


def test_too_much_asked_for_goes_back_halfway():
    """Thirty servers are more than there are; nine do."""
    end = tightened(Toy(servers=7, most=9), Tight(2.0), 30.0, never)

    assert end.kept is not None
    assert 7 <= end.kept.plan <= 9


def test_where_nothing_holds_the_last_that_broke_is_told():
    end = tightened(Toy(servers=50, most=9), Tight(2.0), 30.0, never)

    assert end.kept is None
    assert end.broke.ttft > 1
    assert end.tried <= ROUNDS


def test_a_time_that_is_over_ends_it_after_the_first():
    kept, broke, tried = reach(Toy(), Tight(2.0), 50.0, lambda: True)

    assert (kept, tried) == (None, 1)
    assert broke.plan == 2


def test_whole_requests_that_last_too_long_tighten_what_they_mostly_wait_for():
    """From where decoding was found; where the first token is most of it, the rate goes up."""
    decoding = Trial(Tight(2.0), 0, 2.0, 0.2, 0.5, whole=1.25, first=0.1)
    queued = Trial(Tight(2.0), 0, 2.0, 0.8, 0.5, whole=1.25, first=0.7)

    assert tighter(decoding, None, 9.0).tpot == pytest.approx(0.5 * 0.97 / 1.25)
    assert tighter(decoding, None, 9.0).rate_rps == 2.0
    assert tighter(queued, None, 9.0).rate_rps > 2.0
    assert tighter(queued, None, 9.0).tpot == 1.0
    assert not decoding.kept
