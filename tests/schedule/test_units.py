"""Units of a class: a size whose search was stopped is not one that does not serve."""

from dataclasses import replace

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner.candidates.deadline import deadline, left_s
from planner.errors import Infeasible, OutOfTime
from planner.inputs.reading import read_workload
from planner.inputs.traffic import Traffic
from planner.question.asked import read
from planner.schedule import answer
from planner.schedule import units as module
from planner.schedule.answer import Ask, schedule
from planner.schedule.units import Sized, units
from planner.search.find import find
from solvers.linear import Limits
from solvers.schedule import Solution
from tests.schedule.samples import UNIT

LIMITS = Limits(seconds=10.0)


def asked(*devices: str, rate: float = 10.0):
    """Four nodes of one GPU of each device, on a day of two slots."""
    nodes = [
        Node(name=d, device=d, gpus_per_node=1, count=4, price_usd_per_hour=1.0 + i)
        for i, d in enumerate(devices)
    ]
    workload, _ = read_workload("chat", rate=rate)
    workload = workload.model_copy(update={"traffic": Traffic(slot_s=3600.0, rate_rps=[rate, rate / 2])})
    return read(resolve(Cluster(nodes=nodes)), "llama-3.1-8b", None, workload, {}, {"engine": "vllm"})


def stopping(monkeypatch, *stopped, **solution):
    """Searches on so many nodes of these classes end so: `stopped` are classes and nodes."""

    def stop(question, pool, limits):
        (node,) = question.cluster.classes
        found = find(question, pool, limits)
        if (node.id, node.node_count) not in stopped:
            return found
        return replace(found, solution=replace(found.solution, **solution))

    monkeypatch.setattr(module, "find", stop)


LATE = {"status": "time_limit", "objective": None, "bound": None}


def test_the_classes_share_a_part_of_the_time_and_what_one_leaves_the_next_has(monkeypatch):
    """Of 20 s all but a quarter, which the search for the schedule has."""
    left = list[float]()

    def late(*_):
        left.append(left_s())
        raise OutOfTime("late")

    monkeypatch.setattr(module, "_simplest", late)
    with pytest.raises(OutOfTime):
        schedule(asked("l40s", "h100-sxm"), Ask(limits=Limits(seconds=20.0)))
    assert left == 3 * [pytest.approx(7.5, abs=0.5)] + 3 * [pytest.approx(15.0, abs=0.5)]


def test_a_unit_whose_fleet_is_found_and_not_what_it_carries_is_not_decided(monkeypatch):
    def late(*_):
        raise OutOfTime("late")

    monkeypatch.setattr(module, "of_fleet", late)
    with pytest.raises(OutOfTime, match="before any unit of l40s was found"):
        units(asked("l40s"), LIMITS)


def test_a_class_that_there_was_no_time_for_is_not_decided():
    with deadline(0.0), pytest.raises(OutOfTime, match="before any unit of h100-sxm, l40s was found"):
        units(asked("l40s", "h100-sxm"), LIMITS)


def test_where_no_search_is_stopped_everything_is_decided():
    found = units(asked("l40s", "h100-sxm"), LIMITS)

    assert [(u.node_class, u.nodes) for u in found.units] == [("h100-sxm", 1), ("l40s", 1)]
    assert (found.undecided, found.unknown) == ({}, [])


def test_a_size_that_was_stopped_is_not_decided_and_the_next_may_serve(monkeypatch):
    stopping(monkeypatch, ("l40s", 1), **LATE)
    found = units(asked("l40s"), LIMITS)

    assert [(u.node_class, u.nodes) for u in found.units] == [("l40s", 2)]
    assert (found.undecided, found.unknown) == ({"l40s": [1]}, [])


@pytest.mark.parametrize("ended", [{"status": "infeasible"}, {"status": "optimal", "rate": 0.0}])
def test_a_size_that_is_proven_not_to_serve_is_decided(monkeypatch, ended):
    stopping(monkeypatch, ("l40s", 1), **{**LATE, **ended})

    assert units(asked("l40s"), LIMITS).undecided == {}


def test_a_size_whose_best_was_stopped_at_next_to_nothing_is_not_decided(monkeypatch):
    monkeypatch.setattr(module, "_unit", lambda *_: None)
    monkeypatch.setattr(module, "simplest", lambda question, best, *_: type("Own", (), {"chosen": best}))
    stopping(monkeypatch, ("l40s", 2), status="time_limit")

    with pytest.raises(OutOfTime, match="any unit of l40s"):
        units(asked("l40s"), LIMITS)


def test_a_class_whose_every_size_was_stopped_is_not_left_out_of_the_schedule(monkeypatch):
    every = [("l40s", k) for k in module.SIZES]
    stopping(monkeypatch, *every, **LATE)
    found = schedule(asked("l40s", "h100-sxm"), Ask(limits=Limits(gap=0.01, seconds=20.0)))

    assert [u.node_class for u in found.units] == ["h100-sxm"]
    assert (found.left_out, found.undecided) == ([], {"l40s": [1, 2, 4]})


def test_what_was_not_looked_at_in_time_is_not_decided(monkeypatch):
    """Candidates that the time ended before may serve."""
    pooled = module.pooled
    monkeypatch.setattr(
        module, "pooled", lambda a: (replace(pooled(a)[0], candidates=(), late=True), pooled(a)[1])
    )

    with pytest.raises(OutOfTime, match="time limit reached before any unit of l40s"):
        units(asked("l40s"), LIMITS)


def test_where_no_search_was_stopped_and_nothing_serves_that_is_told(monkeypatch):
    stopping(monkeypatch, *[("l40s", k) for k in module.SIZES], **{**LATE, "status": "infeasible"})

    with pytest.raises(Infeasible, match="no 4 nodes of one class keep the limits"):
        units(asked("l40s"), LIMITS)


def test_ctrl_c_ends_the_search_for_units(monkeypatch):
    stopping(monkeypatch, ("l40s", 1), status="interrupted")

    with pytest.raises(KeyboardInterrupt):
        units(asked("l40s"), LIMITS)


@pytest.mark.parametrize("known", [True, False])
def test_all_nodes_together_are_not_said_to_serve_too_little_where_some_are_not_known(known):
    every = Sized([UNIT], {"h": [1]} if known else {"l40s": [1, 2, 4]})

    with pytest.raises(Infeasible if known else OutOfTime, match="slot 0" if known else "what l40s serve"):
        answer._enough(every, [1000.0] * 4)


@pytest.mark.parametrize(
    ("status", "known", "error"),
    [
        ("infeasible", True, Infeasible),
        ("infeasible", False, OutOfTime),
        ("time_limit", True, OutOfTime),
        ("interrupted", True, KeyboardInterrupt),
    ],
)
def test_no_schedule_is_told_as_what_it_is(monkeypatch, status, known, error):
    unit = replace(UNIT, by_slot=(50.0,) * 2)
    monkeypatch.setattr(answer, "units", lambda *_: Sized([unit], {} if known else {"l40s": [1]}))
    monkeypatch.setattr(answer.solver, "solve", lambda *_: Solution(None, (), None, None, status, "none"))

    with pytest.raises(error):
        schedule(asked("h100-sxm"), Ask())


def test_after_ctrl_c_nothing_is_priced_beside(monkeypatch):
    solved, solve = list[int](), answer.solver.solve

    def pressed(problem, limits):
        solved.append(1)
        return replace(solve(problem, limits), status="interrupted")

    monkeypatch.setattr(answer.solver, "solve", pressed)
    found = schedule(asked("h100-sxm"), Ask(margin=0.1, limits=Limits(gap=0.01, seconds=20.0)))

    assert (found.status, found.bare_usd, len(solved)) == ("interrupted", None, 1)
