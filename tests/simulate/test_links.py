"""Caches on their way: by hand, against the replay of transfers alone, and never more than a wire carries."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.replays.transfers import Beside, replay_transfers
from planner.simulate.links import Shared, Transfer, Wire, fair_rates


def sent(transfers: list[tuple[float, Transfer]], kind: type = Shared) -> tuple[dict[int, float], object]:
    """When each is there; and who carried them."""
    events: list[tuple[float, int, str]] = [(at, one.request, "send") for at, one in transfers]
    events.sort()
    by, there = {one.request: one for _, one in transfers}, dict[int, float]()
    carrier = kind(lambda at, request, what: heappush(events, (at, request, what)))
    while events:
        now, request, what = heappop(events)
        if what == "send":
            carrier.send(by[request], now)
        elif (at := carrier.through(request, now)) is not None:
            there[request] = at
    return there, carrier


def test_senders_share_a_link_and_each_sends_one_after_the_other() -> None:
    """By hand: a and b halve the link of 1 B/s until b is through at 2; a has 3 of its 4 left, until 5; then
    a's second goes alone."""
    link = {"link": 1.0}
    there, _ = sent(
        [
            (0.0, Transfer(0, "a", 4.0, link)),
            (0.0, Transfer(1, "b", 1.0, link, latency_s=0.5)),
            (0.0, Transfer(2, "a", 1.0, link)),
        ]
    )
    assert there == pytest.approx({1: 2.5, 0: 5.0, 2: 6.0})


def test_what_a_slow_receiver_leaves_the_others_have() -> None:
    """By hand: of a link of 10 B/s the first gets the 2 that its receiver takes, the second 8."""
    wires = {"link": 10.0, "slow": 2.0}, {"link": 10.0, "fast": 100.0}
    there, _ = sent([(0.0, Transfer(i, i, 8.0, w)) for i, w in enumerate(wires)])
    assert there == pytest.approx({0: 4.0, 1: 1.0})


def test_beside_each_other_each_takes_its_own_time() -> None:
    there, _ = sent([(0.0, Transfer(i, "a", 4.0, {"x": 2.0, "y": 1.0}, 0.1)) for i in (0, 1)], Beside)
    assert there == pytest.approx({0: 4.1, 1: 4.1})


def test_the_wires_between_two_servers() -> None:
    near, far = Wire(5.0, 7.0, 0.1), Wire(5.0, 7.0, 0.1, "a to b", 3.0)
    assert sorted(near.over(1, 2).values()) == [5.0, 7.0]
    assert far.over(1, 2)["a to b"] == 3.0
    assert set(near.over(1, 2)) & set(near.over(1, 3)) == {("out", 1)}


MANY = st.lists(
    st.tuples(st.floats(0, 5), st.floats(0.1, 5), st.integers(0, 2), st.integers(0, 2), st.booleans()),
    min_size=1,
    max_size=12,
)
RATES = {"in 0": 1.0, "in 1": 2.0, "in 2": 0.7, "out 0": 1.5, "out 1": 0.9, "out 2": 3.0, "link": 1.1}


@settings(max_examples=60)
@given(MANY)
def test_of_as_many_senders_as_transfers_it_is_the_replay_of_transfers(rows) -> None:
    names = list(RATES)
    over = [["out " + str(a), "in " + str(b), *(["link"] if far else [])] for _, _, a, b, far in rows]
    transfers = [
        (row[0], Transfer(i, i, row[1], {w: RATES[w] for w in wires}))
        for i, (row, wires) in enumerate(zip(rows, over, strict=True))
    ]
    there, _ = sent(transfers)
    known = replay_transfers(
        np.array([r[0] for r in rows]),
        np.array([r[1] for r in rows]),
        [[names.index(w) for w in wires] for wires in over],
        np.array(list(RATES.values())),
    )
    assert [there[i] for i in range(len(rows))] == pytest.approx(known.tolist())


@settings(max_examples=60)
@given(MANY)
def test_no_wire_carries_more_than_it_can_and_all_of_it(rows) -> None:
    """Bytes over a wire until each arrival: what came so far, at the wire's rate since the first began."""
    transfers = []
    for i, (at, size, a, b, far) in enumerate(rows):
        over = {f"out {a}": RATES[f"out {a}"], f"in {b}": RATES[f"in {b}"]}
        over |= {"link": RATES["link"]} if far else {}
        transfers.append((at, Transfer(i, a, size, over)))
    there, carrier = sent(transfers)
    assert len(there) == len(rows)
    for wire, rate in RATES.items():
        own = [(at, one) for at, one in transfers if wire in one.over]
        if not own:
            continue
        assert carrier.carried[wire] == pytest.approx(sum(one.sent_bytes for _, one in own))
        began = min(at for at, _ in own)
        for _, one in own:
            until = there[one.request]
            done = sum(o.sent_bytes for _, o in own if there[o.request] <= until)
            assert done <= rate * (until - began) * (1 + 1e-9) + 1e-9


@settings(max_examples=60)
@given(st.lists(st.sets(st.sampled_from(sorted(RATES)), min_size=1), min_size=1, max_size=8))
def test_fair_rates_fill_a_wire_of_each_and_overfill_none(over) -> None:
    rates = fair_rates({i: sorted(w) for i, w in enumerate(over)}, RATES)
    used = {w: sum(rates[i] for i, own in enumerate(over) if w in own) for w in RATES}
    assert all(used[w] <= RATES[w] * (1 + 1e-9) for w in RATES)
    for i, own in enumerate(over):  # one that is full, and of which nobody has more
        full = [w for w in own if used[w] >= RATES[w] * (1 - 1e-9)]
        assert any(all(rates[i] >= rates[j] - 1e-9 for j, o in enumerate(over) if w in o) for w in full)
