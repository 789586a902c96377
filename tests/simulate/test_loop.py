"""The event loop: what comes first is first, what comes at the same moment is seen, servers say when."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import heappop
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from planner.simulate.loop import Loop


@dataclass(eq=False)
class Server:
    """Serves one request a step, each `takes_s`; writes what happens into `log`."""

    name: str
    log: list[tuple[float, str, int]]
    takes_s: float = 1.0
    now_s: float = 0.0
    due_s: float = math.inf
    waits: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def take(self, request: int, at_s: float) -> None:
        self.log.append((at_s, f"{self.name} takes", request))
        self.waits.append(request)
        if self.due_s == math.inf:
            self.due_s = max(self.now_s, at_s)

    def step(self) -> list[int]:
        """Ends what it began in the step before, and begins the next."""
        at_s, self.now_s = self.due_s, self.due_s + self.takes_s
        ended, self.ends = self.ends, self.waits[:1]
        self.waits = self.waits[1:]
        self.log.append((at_s, f"{self.name} steps", len(self.waits)))
        self.due_s = self.now_s if self.ends else math.inf
        return ended


@dataclass
class Front:
    """Sends requests to servers in turn; words that begin with `no` go nowhere; ended ones may come again."""

    loop: Loop
    log: list[tuple[float, str, int]]
    again: dict[int, float] = field(default_factory=dict)
    turn: int = 0

    def comes(self, request: int, what: str, at_s: float) -> Server | None:
        self.log.append((at_s, what, request))
        if what.startswith("no"):
            return None
        self.turn += 1
        return self.loop.servers[(self.turn - 1) % len(self.loop.servers)]  # type: ignore[return-value]

    def finished(self, server: Server, requests: list[int]) -> None:
        for request in requests:
            self.log.append((server.now_s - server.takes_s, f"{server.name} ends", request))
            if request in self.again:
                self.loop.at(self.again.pop(request), request, "again")


class Looks:
    """Looks at even times, and at when what has happened until then was last."""

    def __init__(self, every_s: float, log: list[tuple[float, str, int]]) -> None:
        self.every_s, self.next_s, self.log, self.seen = every_s, 0.0, log, list[tuple[float, float]]()

    def until(self, now_s: float) -> None:
        while self.next_s < now_s:
            self.seen.append((self.next_s, self.log[-1][0] if self.log else 0.0))
            self.next_s += self.every_s


def played(events: list[tuple[float, int, str]], servers: int = 1, takes_s: float = 1.0, **front: dict):
    """What happened, and the looks."""
    log: list[tuple[float, str, int]] = []
    loop = Loop([Server("abcdefgh"[i], log, takes_s) for i in range(servers)])
    for event in events:
        loop.at(*event)
    looks = Looks(0.5, log)
    loop.run(Front(loop, log, **front), looks)
    return log, looks.seen, loop


def test_one_request_is_taken_served_and_ended() -> None:
    log, _, loop = played([(2.0, 7, "comes")])

    assert log == [
        (2.0, "comes", 7),
        (2.0, "a takes", 7),
        (2.0, "a steps", 0),
        (3.0, "a steps", 0),
        (3.0, "a ends", 7),
    ]
    assert (loop.coming, loop.ready) == ([], [])


def test_what_comes_at_the_moment_of_a_step_is_seen_by_it() -> None:
    """The second comes just when the first ends: the step that begins then already has it."""
    log, _, _ = played([(0.0, 0, "comes"), (1.0, 1, "comes")])
    at_one = [(what, n) for at_s, what, n in log if at_s == 1.0]

    assert at_one == [("comes", 1), ("a takes", 1), ("a steps", 0), ("a ends", 0)]


def test_what_comes_together_comes_in_the_order_of_requests_however_it_was_told() -> None:
    log, _, _ = played([(1.0, 2, "comes"), (0.5, 9, "comes"), (1.0, 1, "comes")])

    assert [request for _, what, request in log if what == "comes"] == [9, 1, 2]


def test_what_goes_to_no_server_wakes_none() -> None:
    log, _, _ = played([(1.0, -1, "nobody"), (2.0, 3, "no room")])

    assert log == [(1.0, "nobody", -1), (2.0, "no room", 3)]


def test_a_request_that_ends_may_bring_another_later() -> None:
    log, _, _ = played([(0.0, 4, "comes")], again={4: 10.0})

    assert [(at_s, what) for at_s, what, n in log if n == 4 and what != "a takes"] == [
        (0.0, "comes"), (1.0, "a ends"), (10.0, "again"), (11.0, "a ends"),
    ]  # fmt: skip


def test_servers_run_beside_each_other() -> None:
    """Two servers end two requests in the time of one."""
    log, _, _ = played([(0.0, i, "comes") for i in range(4)], servers=2)

    assert [(at_s, what, n) for at_s, what, n in log if what.endswith("ends")] == [
        (1.0, "a ends", 0), (1.0, "b ends", 1), (2.0, "a ends", 2), (2.0, "b ends", 3),
    ]  # fmt: skip


def test_looks_are_before_what_is_later_than_they() -> None:
    """At 0, 0.5, … before the request at 2.2, then until its end at 3.2; at 1.0 what comes then is seen."""
    _, seen, _ = played([(1.0, -1, "nobody"), (2.2, 0, "comes")])

    assert seen == [(0.0, 0.0), (0.5, 0.0), (1.0, 1.0), (1.5, 1.0), (2.0, 1.0), (2.5, 2.2), (3.0, 2.2)]


def test_a_server_that_is_due_elsewhen_is_left_alone_at_the_old_time() -> None:
    """One that a failure stops has no step at the time that it had said."""

    class Failing(Front):
        def comes(self, request: int, what: str, at_s: float) -> Server | None:
            if what == "fails":
                (server,) = self.loop.servers
                server.waits, server.ends, server.due_s = [], [], math.inf  # type: ignore[attr-defined]
                return None
            return super().comes(request, what, at_s)

    log: list[tuple[float, str, int]] = []
    loop = Loop([Server("a", log)])
    for event in ((0.0, 0, "comes"), (0.5, -1, "fails"), (5.0, 1, "comes")):
        loop.at(*event)
    loop.run(Failing(loop, log), Looks(1e9, log))

    assert [at_s for at_s, what, _ in log if what == "a steps"] == [0.0, 5.0, 6.0]
    assert [n for _, what, n in log if what == "a ends"] == [1]


def test_how_far_it_is_is_told_every_16_384_turns() -> None:
    log: list[tuple[float, str, int]] = []
    loop, told = Loop([]), list[float]()
    for i in range(40_000):
        loop.at(float(i), i, "nobody")
    loop.run(Front(loop, log), Looks(1e9, log), told.append)

    assert told == [16_383.0, 32_767.0]


@given(
    st.lists(st.tuples(st.floats(0, 50), st.integers(0, 5)), max_size=30, unique_by=lambda x: x[1]),
    st.integers(1, 4),
    st.floats(0.01, 5),
)
def test_time_never_runs_back_and_everything_ends(times, servers, takes_s) -> None:
    log, seen, loop = played([(at_s, n, "comes") for at_s, n in times], servers, takes_s)

    assert all(last_s <= at_s for at_s, last_s in seen)
    assert all(a[0] <= b[0] + 1e-9 for a, b in pairwise(log))
    assert sorted(n for _, what, n in log if what.endswith("ends")) == sorted(n for _, n in times)
    assert not loop.coming


def test_the_heap_of_what_comes_is_by_time() -> None:
    loop = Loop([])
    for at_s in (3.0, 1.0, 2.0):
        loop.at(at_s, 0, "comes")

    assert [heappop(loop.coming)[0] for _ in range(3)] == [1.0, 2.0, 3.0]
