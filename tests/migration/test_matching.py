"""Which GPU takes which place: never more bytes than any other way."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from planner.migration.matching import matched
from planner.migration.servers import Seat, Server
from tests.check.plans import dense

AT = ("h-0", "h")
REPLICA = dense().replicas[0]
HOLDINGS = st.lists(st.frozensets(st.integers(0, 4), min_size=1), max_size=4)


def servers(holdings, first=0):
    """One GPU each, holding a set of pieces of one byte."""
    return [
        Server(0, REPLICA, i, (Seat(("h-0", first + i), "h", ("set", *sorted(own))),), ("command",))
        for i, own in enumerate(holdings)
    ]


def missing(old, new):
    return float(len(set(new[1:]) - set((old or ())[1:])))


@given(HOLDINGS, HOLDINGS)
def test_no_other_way_loads_less(old, new):
    found = matched(servers(old), servers(new), {AT: range(4)}, missing)
    loaded = sum(missing(p.old, p.new) for p in found.placed)
    gpus = [*old, *[frozenset()] * (4 - len(old))]
    least = min(
        sum(len(place - gpu) for place, gpu in zip(new, way, strict=False)) for way in permutations(gpus)
    )

    assert loaded == least
    assert sorted(p.server for p in found.placed) == list(range(len(new)))
    assert len({p.gpu for p in found.placed}) == len(new)


@given(HOLDINGS)
def test_what_is_the_same_is_kept_whatever_its_number(holdings):
    found = matched(servers(holdings), servers(holdings[::-1]), {AT: range(4)}, missing)

    assert len(found.kept) == len(holdings)
    assert found.restarted == {}


def test_on_a_machine_that_was_not_there_all_is_new():
    found = matched(servers([{1, 2}]), servers([{1, 2}, {3}]), {}, missing)

    assert [p.old for p in found.placed if p.server == 1] == [None]
