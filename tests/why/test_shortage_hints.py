"""Hints of a shortage with made-up fleets: each looked for, the least that is enough, in words."""

import time
from dataclasses import dataclass, field, replace
from types import SimpleNamespace as Some
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_configs.reading import from_gpus
from planner.candidates.pairing import NO_EDGES
from planner.errors import Infeasible, OutOfTime
from planner.inputs.options import Budget, Survive
from planner.objectives import COST, ENERGY, GPUS, THROUGHPUT
from planner.problems.pairs import Traffic
from planner.replicas.pool import Pool
from planner.search.question import Question
from planner.why import rounding, shortage
from planner.why.rounding import MOST_NODES
from planner.why.shortage import Look, budget_hints, explain, node_hints
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits

EACH_RPS, EACH_USD, EACH_WATTS = 10.0, 3.0, 500.0
"""Of one of the GPUs below: they serve alike, and the watts of idle ones are none."""


def question(rate=None, budget=None, objective=THROUGHPUT, gpus="4xH100", survive=None) -> Question:
    traffic = Traffic({"0": 1.0}, {}, {"0": 100}, 1.0, rate)
    return Question(from_gpus(gpus), None, traffic, objective, budget or Budget(), None, survive=survive)


@dataclass
class Fleets:
    """In place of the search: as many GPUs as the rate takes, where stock and budgets have them."""

    asked: list = field(default_factory=list)
    fails: Any = None
    ended: dict = field(default_factory=dict)

    def __call__(self, q: Question, pool, limits) -> Any:
        self.asked.append(q)
        if self.fails is not None:
            raise self.fails
        b = q.budget
        stock = sum(node.gpus for node in q.cluster.classes)
        most = min(
            stock, b.gpus or stock, (b.usd_per_hour or 1e9) // EACH_USD, (b.watts or 1e9) // EACH_WATTS
        )
        lost, share = (0, 1.0) if q.survive is None else (q.survive.nodes, q.survive.share)
        rate = q.traffic.rate_rps
        if rate is None:
            value = EACH_RPS * (most - lost) / share if q.objective is THROUGHPUT else 0.0
            return self.told(value if most > lost else None)
        used = -(-rate * share // EACH_RPS) + lost
        goal = {None: rate, "usd_per_hour": used * EACH_USD, "watts": used * EACH_WATTS, "gpus": used}
        return self.told(goal[q.objective.spends] if used <= most else None)

    def told(self, value: float | None) -> Any:
        """That fleet, proven, or how its search is said to end."""
        s = FleetSolution("infeasible" if value is None else "optimal", value, value, "none")
        return Some(solution=replace(s, **self.ended))


@pytest.fixture
def fleets(monkeypatch) -> Fleets:
    own = Fleets()
    monkeypatch.setattr(shortage, "find", own)
    return own


def look(q: Question, seconds: float = 60.0) -> Look:
    pool = Pool((Some(gpus=2), Some(gpus=4)), {}, edges=NO_EDGES)
    return Look(q, pool, Limits(), time.monotonic() + seconds)


def hints(q: Question, rate: float) -> list[str]:
    return budget_hints(look(q), rate)


@pytest.mark.usefixtures("fleets")
@pytest.mark.parametrize(
    ("budget", "rate", "said"),
    [
        (Budget(gpus=1), 25.0, ["--budget gpus=3"]),
        (Budget(usd_per_hour=5), 25.0, ["--budget usd_per_hour=9"]),
        (Budget(watts=400), 35.0, ["--budget watts=2000"]),
        (Budget(gpus=1), 99.0, []),  # more than all GPUs serve
        (Budget(gpus=4, usd_per_hour=5), 25.0, ["--budget usd_per_hour=9,gpus=4"]),  # only one is short
        (Budget(gpus=1, usd_per_hour=5), 25.0, ["--budget usd_per_hour=9,gpus=3"]),  # both are
        (Budget(gpus=1, usd_per_hour=5, watts=9000), 25.0, ["--budget usd_per_hour=9,gpus=3,watts=9000"]),
        (Budget(gpus=1, usd_per_hour=5), 99.0, []),
    ],
)
def test_the_least_budget_that_lets_a_rate_through(budget, rate, said):
    """3 GPUs serve 25 requests/s, for $9 an hour and 1,500 W; 4 serve 35, for 2,000 W."""
    assert hints(question(rate, budget), rate) == said


def test_a_budget_is_told_only_where_a_fleet_for_the_question_keeps_it(fleets, monkeypatch):
    """The least watts that a fleet for least energy takes are too few for one of fewest GPUs: 1 % more do."""
    real = fleets.__call__

    def a_little_more(q, pool, limits):
        spare = q.objective is GPUS and (q.budget.watts or 1e9) < 1505
        return fleets.told(None) if spare else real(q, pool, limits)

    monkeypatch.setattr(shortage, "find", a_little_more)
    assert hints(question(25.0, Budget(watts=400), GPUS), 25.0) == ["--budget watts=1520"]


def test_each_budget_is_looked_for_by_the_objective_whose_least_it_is(fleets):
    hints(question(25.0, Budget(gpus=1, usd_per_hour=5)), 25.0)

    assert [q.objective for q in fleets.asked[:2]] == [COST, GPUS]
    assert fleets.asked[0].budget == Budget(gpus=1)  # the other one holds
    assert fleets.asked[1].budget == Budget(usd_per_hour=5)
    assert shortage.GOALS == {"usd_per_hour": COST, "watts": ENERGY, "gpus": GPUS}


@given(st.floats(0.5, 900.0))
def test_what_is_enough_is_rounded_up_to_what_can_be_said(least):
    for name in ("usd_per_hour", "watts"):
        assert least * (1 - 1e-8) <= rounding.enough(name, least) <= least * 1.011
    assert rounding.enough("gpus", 2.9999999) == 3.0


@pytest.mark.usefixtures("fleets")
@pytest.mark.parametrize(
    ("rate", "ceiling", "said"),
    [
        (99.0, 40.0, ["40"]),
        (99.0, 41.0, ["39.7"]),  # 41 themselves take a fifth GPU; 97 % of them do not
        (99.0, 50.0, ["37.5"]),
        (99.0, 100.0, []),  # not even a half is carried
        (99.0, 0.0, []),
    ],
)
def test_the_highest_rate_named_is_one_that_is_carried(rate, ceiling, said):
    assert list(shortage._rates(look(question(rate)), rate, ceiling)) == said


@pytest.mark.usefixtures("fleets")
@pytest.mark.parametrize(
    ("survive", "rate", "ceiling", "said"),
    [
        (None, 20.0, 10.0, []),
        (Survive(nodes=1, share=1.0), 40.0, 30.0, ["--survive node:75%"]),
        (Survive(nodes=2, share=1.0), 40.0, 20.0, ["--survive 2:50%"]),
        (Survive(nodes=1, share=0.8), 40.0, 40.0, ["--survive node:72%"]),  # 80 % and 77 % ask for more
        (Survive(nodes=4, share=1.0), 40.0, 40.0, []),
    ],
)
def test_the_share_named_is_what_the_rest_serves(survive, rate, ceiling, said):
    """Of four GPUs one is lost: the other three serve 30, which is 75 % of 40."""
    assert list(shortage._share_hints(look(question(rate, survive=survive)), rate, ceiling)) == said


class Solver:
    """In place of the program: enough where a class has so many nodes."""

    def __init__(self, enough: int):
        self.enough, self.tried = enough, []

    def solve(self, problem, limits):
        nodes = problem.stocks["h100-sxm"].nodes
        self.tried.append(nodes)
        return FleetSolution("optimal", 1.0 if nodes >= self.enough else None, None, "none")


@dataclass(frozen=True)
class Stock:
    nodes: int


@dataclass(frozen=True)
class Problem:
    stocks: dict
    objective: Any = None


@pytest.fixture
def more_nodes(monkeypatch):
    """As many nodes as are there, and enough where the program and the one model want so many."""

    def made(program: int, model: int) -> Solver:
        solver = Solver(program)
        monkeypatch.setattr(shortage.fleet, "solve", solver.solve)
        monkeypatch.setattr(
            Question,
            "state",
            lambda q, pool, side: Problem({"h100-sxm": Stock(q.cluster.classes[0].node_count)}),
        )
        carried = lambda self, q: q.cluster.classes[0].node_count >= model  # noqa: E731
        monkeypatch.setattr(Look, "carries", carried)
        return solver

    return made


@pytest.mark.parametrize(
    ("program", "model", "said"),
    [
        (2, 2, ["1 more node of h100-sxm"]),
        (6, 6, ["5 more nodes of h100-sxm"]),
        (6, 7, ["6 more nodes of h100-sxm"]),  # the program has a word for it, real answers one node more
        (41, 45, ["45 more nodes of h100-sxm"]),  # a tenth more of 40, and one
        (41, 99, []),
    ],
)
def test_the_fewest_nodes_more_that_are_enough(more_nodes, program, model, said):
    """One is there; found by doubling and halving."""
    more_nodes(program, model)

    assert node_hints(look(question())) == said


@given(st.integers(2, MOST_NODES + 1))
def test_no_fewer_nodes_would_do(program):
    with pytest.MonkeyPatch.context() as patch:
        solver = Solver(program)
        patch.setattr(shortage.fleet, "solve", solver.solve)
        patch.setattr(Question, "state", lambda q, pool, side: Problem({"h100-sxm": Stock(1)}))
        patch.setattr(Look, "carries", lambda self, q: True)
        own = look(question())
        (node,) = own.question.cluster.classes

        assert shortage._more_nodes(own, node) == program - 1
    assert len(solver.tried) <= 2 * 13


def test_more_nodes_than_anybody_has_are_no_hint(more_nodes):
    solver = more_nodes(10 * MOST_NODES, 10 * MOST_NODES)

    assert node_hints(look(question())) == []
    assert max(solver.tried) <= MOST_NODES + 1


def test_of_several_classes_the_two_that_need_the_fewest_are_named(monkeypatch):
    need = {"h100-sxm": 3, "l4": 1, "a100-sxm": 2}
    monkeypatch.setattr(shortage, "_more_nodes", lambda look, node: need.get(node.id))
    own = look(question(gpus="1xH100,1xL4,1xA100,1xT4"))

    assert node_hints(own) == ["1 more node of l4", "2 more nodes of a100-sxm"]


def test_a_cluster_with_more_nodes_names_them():
    q = question()
    larger = shortage._with_more(q, q.cluster.classes[0], 3).cluster.classes[0]

    assert larger.node_count == 4
    assert len(set(larger.nodes)) == 4


def told(q: Question, **of: Any):
    """What is said of a question whose search found nothing."""
    status = of.pop("status", "infeasible")
    found = Some(
        solution=FleetSolution(status, None, None, "none"),
        problem=Some(budget=of.pop("spent", {}), share={}, columns={}),
    )
    return explain(q, look(q).pool, found, Limits(seconds=of.pop("seconds", 60.0)))


@pytest.mark.usefixtures("fleets")
@pytest.mark.parametrize(
    ("q", "message", "hint"),
    [
        (
            question(99.0, Budget(gpus=2), gpus="16xH100"),
            "99 req/s cannot be served within the budget: at most 20 req/s",
            "--rate 20 or --budget gpus=10",
        ),
        (
            question(30.0, survive=Survive(nodes=2)),
            "30 req/s cannot be served by these nodes within the SLO after the loss of any 2 nodes: "
            "at most 20 req/s",
            "--rate 20 or 1 more node of h100-sxm or --survive 2:66%",
        ),
        (
            question(61.0, survive=Survive(share=0.5)),
            "61 req/s cannot be served by these nodes within the SLO with 50 % of it left after the loss of "
            "any one node: at most 60 req/s",
            "--rate 60 or 1 more node of h100-sxm or --survive node:49%",
        ),
        (
            question(99.0, Budget(watts=400)),
            "99 req/s cannot be served by these nodes within the SLO and the budget: at most 0 req/s",
            "--rate 40 --budget watts=2000",
        ),
    ],
)
def test_too_much_is_told_with_the_most_and_all_that_would_help(monkeypatch, q, message, hint):
    monkeypatch.setattr(shortage, "_more_nodes", lambda look, node: None if q.budget.watts else 1)
    error = told(q)

    assert error.message == message
    assert error.hint == hint


def test_fleets_that_do_not_keep_what_they_promise_prove_nothing(monkeypatch, fleets):
    """The bound lets more through than the most that was found: that the rate cannot be served is not
    known. Where the bound is below the rate, it is."""
    monkeypatch.setattr(shortage, "_more_nodes", lambda look, node: None)
    fleets.ended = {"status": "within_gap", "bound": 45.0, "rate": 40.0}
    unknown, proven = told(question(42.0), status="within_gap"), told(question(46.0), status="within_gap")

    assert (type(unknown), unknown.hint) == (OutOfTime, "--rate 40")
    assert unknown.message == (
        "whether 42 req/s can be served by these nodes within the SLO is not known: "
        "the most that was found is 40 req/s"
    )
    assert isinstance(proven, Infeasible)
    assert isinstance(told(question(), status="within_gap"), OutOfTime)
    fleets.ended = STOPPED
    assert isinstance(told(question(42.0), status="within_gap"), OutOfTime)


def test_a_rate_that_is_proposed_is_a_lower_one(fleets, monkeypatch):
    """Of what other objectives carry there may be more than was asked for."""
    monkeypatch.setattr(shortage, "_more_nodes", lambda look, node: None)
    monkeypatch.setattr(Look, "carries", lambda *_: True)

    assert told(question(30.0), status="within_gap").hint == "--rate 29.1"


@pytest.mark.usefixtures("fleets")
@pytest.mark.parametrize(
    ("q", "spent", "message", "hint"),
    [
        (
            question(survive=Survive(nodes=4)),
            {},
            "serves anything after the loss of any 4 nodes",
            "--survive",
        ),
        (question(), {}, "keeps the SLO with the whole mix of requests", "loosen the SLO"),
        (
            question(budget=Budget(watts=9), survive=Survive()),  # nor would anything run without a promise
            {"watts": 9},
            "does not pay for a single replica",
            "--budget watts=1000",
        ),
        (question(budget=Budget(watts=9)), {"watts": 9}, "(the smallest takes 2 GPUs)", "--budget watts=500"),
    ],
)
def test_where_nothing_runs_the_reason_is_told(q, spent, message, hint):
    error = told(q, spent=spent)

    assert message in error.message
    assert hint in (error.hint or "")


def test_without_time_to_look_nothing_is_carried(fleets):
    own = look(question(5.0), seconds=-1.0)

    assert own.least(own.question) is None
    assert not own.carries(own.question)
    assert own.may(own.question)
    assert fleets.asked == []


def test_a_search_that_runs_out_of_time_is_no_fleet(fleets):
    fleets.fails = OutOfTime("over")
    own = look(question(5.0))

    assert own.least(own.question) is None
    assert own.may(own.question)
    assert len(fleets.asked) == 2


def test_ctrl_c_while_looking_for_hints_is_heard(fleets, monkeypatch):
    fleets.ended = {"status": "interrupted"}
    own = look(question(5.0))

    with pytest.raises(KeyboardInterrupt):
        own.carries(own.question)
    monkeypatch.setattr(shortage.fleet, "solve", lambda *_: FleetSolution("interrupted", None, None, "none"))
    with pytest.raises(KeyboardInterrupt):
        shortage._may_carry(own, Problem({"g": Stock(1)}), "g", 1)


@pytest.mark.parametrize(
    ("ended", "message"),
    [
        ({"status": "time_limit", "bound": 45.0}, "by these nodes within the SLO: at most 45 req/s"),
        (
            {"status": "time_limit", "bound": 70.0},
            "by these nodes within the SLO: the most that was found is 40 req/s",
        ),
        (
            {"status": "within_gap", "bound": None},
            "by these nodes within the SLO: the most that was found is 40 req/s",
        ),
        ({"status": "time_limit", "objective": None}, "by these nodes within the SLO"),
        ({"status": "optimal", "objective": None}, "by these nodes within the SLO: at most 0 req/s"),
        ({"status": "optimal", "objective": None, "rate": 2.0}, "by these nodes within the SLO"),
        ({"status": "infeasible", "objective": None}, "by these nodes within the SLO: at most 0 req/s"),
    ],
)
def test_the_most_that_is_served_is_told_as_far_as_it_is_proven(monkeypatch, fleets, ended, message):
    monkeypatch.setattr(shortage, "_more_nodes", lambda look, node: None)
    fleets.ended = ended
    monkeypatch.setattr(Look, "carries", lambda *_: False)

    assert told(question(60.0)).message == f"60 req/s cannot be served {message}"


STOPPED = {"status": "time_limit", "objective": None}


def test_what_was_stopped_without_the_budget_is_not_said_of_the_nodes(monkeypatch, fleets):
    """All that is proven is that there is no fleet within the budget."""
    monkeypatch.setattr(shortage, "most_served", lambda *_: "some")
    real = Look.solved

    def solved(own, q):
        fleets.ended = STOPPED if q.objective is GPUS else {}
        return real(own, q)

    monkeypatch.setattr(Look, "solved", solved)

    assert "within the budget" in told(question(30.0, Budget(gpus=2))).message


def test_what_was_stopped_without_a_promise_is_not_said_of_the_nodes(fleets):
    fleets.ended = STOPPED

    assert "after the loss of any one node" in told(question(survive=Survive())).message


def test_a_search_that_ended_early_proves_nothing(fleets):
    with pytest.raises(KeyboardInterrupt):
        told(question(5.0), status="interrupted")
    assert isinstance(told(question(5.0), status="time_limit"), OutOfTime)
    pool = replace(look(question()).pool, late=True)
    found = Some(solution=FleetSolution("infeasible", None, None, "none"), problem=None)
    assert isinstance(explain(question(5.0), pool, found, Limits()), OutOfTime)
    assert fleets.asked == []
