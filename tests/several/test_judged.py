"""Fleets of several models, judged: as much traffic as all keep, what is late, rounds of easing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from planner.plans.strain import Late
from planner.several import find
from planner.several.joint import Fleets, _sum
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits

LIMITS = Limits(gap=0.01, seconds=60.0)


class Goal:
    """An objective; the value of a solution is what its replicas cost, two each."""

    def __init__(self, more: bool) -> None:
        self.more = more

    def value(self, problem: Any, s: FleetSolution) -> float:
        return 2.0 * sum(s.replicas.values())


SOLVED = FleetSolution(
    "optimal",
    100.0,
    100.0,
    "none",
    replicas={"0 a": 2, "1 b": 1},
    nodes={"h": 3},
    flows={("0 a", "0 0"): 60.0, ("1 b", "1 0"): 30.0},
    pair_flows={("1 p", "1 d", "1 0"): 10.0},
    rate=100.0,
)


def group(name: str, count: int) -> SimpleNamespace:
    return SimpleNamespace(candidate=SimpleNamespace(id=name), count=count)


def fleets(
    more: bool = True, made: Sequence[Sequence[Any]] | None = None, s: FleetSolution = SOLVED
) -> Fleets:
    """Two models, `a` with two replicas, `b` with one."""
    joint = SimpleNamespace(objective=Goal(more), demand=None if more else 100.0, weights=[0.6, 0.4])
    made = [[group("a", 2)], [group("b", 1)]] if made is None else made
    program: Any = SimpleNamespace(objective=joint.objective)
    return Fleets(joint, program, s, ("first", "second"), tuple(made))  # type: ignore[arg-type]


@pytest.fixture
def strains(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what share of their limits the models take with all of their traffic: in proportion to it."""

    def set_(**worst: float) -> None:
        monkeypatch.setattr(find, "strain", lambda found, made, factor=1.0: factor * worst[found])

    return set_


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking a union's fleet apart remembers its solution and runs what it ran."""
    monkeypatch.setattr(find, "apart", lambda joint, problem, s: replace(fleets(), joint=joint, solution=s))
    monkeypatch.setattr(find, "nodes_in_use", lambda problem, run, nodes: {"h": len(run)})


def test_the_worst_model_decides_how_near_all_are_to_a_limit(strains: Callable[..., None]) -> None:
    strains(first=0.5, second=0.8)

    assert find.strained(fleets()) == pytest.approx(0.8)
    assert find.strained(fleets(), 0.5) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("first", "second", "factor"), [(2.0, 0.5, 0.5), (0.5, 1.25, 0.8), (0.5, 0.8, 1.25), (1.0, 1.0, 1.0)]
)
def test_all_traffic_is_given_the_factor_that_keeps_every_limit_of_every_model(
    strains: Callable[..., None], first: float, second: float, factor: float
) -> None:
    """More of it, too, where no model is at its limit; the mix of models stays."""
    strains(first=first, second=second)
    found = find.carrying(fleets(), LIMITS)

    assert found is not None
    s = found.solution
    assert s.rate == s.objective == pytest.approx(100 * factor, rel=0.01)
    assert s.rate <= 100 * factor * (1 + 1e-6)
    scale = s.rate / 100
    assert list(s.flows.values()) == pytest.approx([60 * scale, 30 * scale])
    assert list(s.pair_flows.values()) == pytest.approx([10 * scale])


@pytest.mark.parametrize(("worst", "kept"), [(0.2, True), (1.0, True), (1 + 5e-7, True), (1.01, False)])
def test_a_rate_that_is_asked_for_is_carried_just_so_or_not_at_all(
    strains: Callable[..., None], worst: float, kept: bool
) -> None:
    strains(first=0.1, second=worst)
    found = find.carrying(fleets(more=False), LIMITS)

    assert (found is not None) == kept
    assert found is None or found.solution == SOLVED


def test_a_fleet_that_can_carry_nothing_is_none(strains: Callable[..., None]) -> None:
    strains(first=float("inf"), second=0.5)

    assert find.carrying(fleets(), LIMITS) is None


def test_a_model_without_any_replica_is_no_fleet_of_all(strains: Callable[..., None]) -> None:
    strains(first=0.5, second=0.5)

    assert find.carrying(fleets(made=[[group("a", 2)], []]), LIMITS) is None


def test_replicas_that_serve_nothing_are_not_run_and_not_paid(strains: Callable[..., None]) -> None:
    strains(first=0.5, second=0.5)
    idle = replace(SOLVED, replicas={"0 a": 2, "0 c": 4, "1 b": 1}, objective=14.0)
    found = find.carrying(fleets(more=False, s=idle), LIMITS)

    assert found is not None
    assert found.solution.replicas == {"0 a": 2, "1 b": 1}
    assert found.solution.nodes == {"h": 2}
    assert found.solution.objective == 6.0


def test_what_is_late_in_any_model_is_told_under_the_unions_names_the_worst_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = {"first": [Late("a", "0", 0.9), Late("a", "1", 0.2)], "second": [Late("b", "0", 0.5)]}
    monkeypatch.setattr(find, "broken", lambda found, made: late[found])

    assert find.lateness(fleets()) == [
        Late("0 a", "0 1", 0.2), Late("1 b", "1 0", 0.5), Late("0 a", "0 0", 0.9),
    ]  # fmt: skip


class Rounds:
    """A program that is late so many times: each easing is remembered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, late: int, objective: float | None = 5.0) -> None:
        self.late, self.solved, self.eased = late, list[str](), list[tuple[str, int]]()
        s = replace(SOLVED, objective=objective)

        def solve(problem: str, limits: Limits) -> FleetSolution:
            self.solved.append(problem)
            return s

        def eased(problem: str, late: Sequence[Late], rounds: int) -> str:
            self.eased.append((problem, rounds))
            return problem + "+"

        monkeypatch.setattr(find.fleet, "solve", solve)
        monkeypatch.setattr(find, "settled", lambda joint, problem, s, limits, took_s: s)
        monkeypatch.setattr(find, "eased", eased)
        monkeypatch.setattr(find, "lateness", self.lateness)
        monkeypatch.setattr(find, "carrying", lambda fleets, limits: f"carried {len(self.solved)}")

    def lateness(self, fleets: Fleets) -> list[Late]:
        return [Late("0 a", "0 0", 0.5)] if len(self.solved) <= self.late else []

    def run(self) -> Any:
        return find.sound_fleets(fleets().joint, "p", LIMITS, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("late", [0, 1, 3])
def test_a_program_is_eased_and_solved_again_until_nothing_is_late(
    monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    rounds = Rounds(monkeypatch, late)

    assert rounds.run() == f"carried {late + 1}"
    assert rounds.solved == ["p" + "+" * i for i in range(late + 1)]
    assert rounds.eased == [("p" + "+" * i, i) for i in range(late)]


def test_after_so_many_rounds_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(monkeypatch, late=1000)

    assert rounds.run() is None
    assert len(rounds.solved) == find.CUTS


def test_a_program_without_a_fleet_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(monkeypatch, late=0, objective=None)

    assert rounds.run() is None
    assert len(rounds.solved) == 1


def test_a_link_carries_what_all_others_send_over_it() -> None:
    assert _sum([{"a": 0.25}, {"b": 0.5, "a": 0.5}]) == {"a": 0.75, "b": 0.5}


PLAIN, LINKED = (SimpleNamespace(sent=sent, links=tuple(sent)) for sent in ({}, {"x": 1}))
PROGRAM = SimpleNamespace(
    columns={"0 a": PLAIN, "1 b": PLAIN, "1 far": LINKED},
    pairs={("1 p", "1 d", "1 0"): PLAIN, ("1 p", "1 e", "1 0"): LINKED},
)
"""One column and one pair send over a declared link."""


@pytest.mark.parametrize(
    ("changes", "balanced"),
    [
        ({}, ["0 of PROGRAM", "1 of PROGRAM"]),
        ({"replicas": {"0 a": 2, "1 far": 1}}, ["all"]),
        ({"pair_flows": {("1 p", "1 d", "1 0"): 5.0, ("1 p", "1 e", "1 0"): 10.0}}, ["all"]),
    ],
)
def test_traffic_is_spread_model_by_model_but_at_once_where_a_link_is_shared(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], balanced: list[str]
) -> None:
    done = list[str]()

    def balance(problem: Any, s: FleetSolution, limits: Limits) -> FleetSolution:
        done.append("all" if problem is PROGRAM else problem)
        return s

    monkeypatch.setattr(find, "tidied", lambda problem, s, limits: s)
    monkeypatch.setattr(find, "part_of", lambda problem, s, m, weight: f"{m} of PROGRAM")
    monkeypatch.setattr(find.fleet, "balance", balance)
    s = replace(SOLVED, **changes)
    joint: Any = fleets(more=False).joint
    found = find.settled(joint, PROGRAM, s, LIMITS, 0.1)  # type: ignore[arg-type]

    assert done == balanced
    assert (found.flows, found.pair_flows, found.rate) == (s.flows, s.pair_flows, s.rate)


def test_where_as_much_as_possible_is_served_traffic_stays_as_it_was_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = list[float]()
    monkeypatch.setattr(find, "tidied", lambda problem, s, limits: seconds.append(limits.seconds) or s)
    joint: Any = fleets().joint

    for took_s in (0.1, 7.0):
        assert find.settled(joint, PROGRAM, SOLVED, LIMITS, took_s) is SOLVED  # type: ignore[arg-type]
    assert seconds == [max(find.TIDY_S, 0.1), 7.0]
