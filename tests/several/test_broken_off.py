"""Ctrl-C ends a search of several models: what was found stays and says so; what is stopped is no proof."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from planner.errors import Infeasible, OutOfTime
from planner.several import find as module
from planner.several import plan
from planner.several.joint import Joint
from planner.several.plan import none_found, plan_several
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits

BOTH = ("llama-3.1-8b", "qwen3-8b")
NOTHING = FleetSolution("interrupted", None, None, "none")
SERVED = replace(NOTHING, objective=1.0, rate=1.0, bound=2.0)


def broken_off(*_, **__):
    raise KeyboardInterrupt


def planned(explain=False):
    return plan_several(None, BOTH, gpus="16xH100", engine="vllm", explain=explain, work_limit=50)


@pytest.fixture
def endless(monkeypatch):
    """Searches whose first fleets are not good enough, and not proven."""
    monkeypatch.setattr(module, "judged", lambda s, limits: s)
    monkeypatch.setattr(module, "_enough", lambda *_: False)
    monkeypatch.setattr(module, "_whole", lambda *_: False)


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("where", ["sound_fleets", "_split"])
def test_what_was_found_stays(monkeypatch, where):
    monkeypatch.setattr(module, where, broken_off)
    found = planned()

    assert found.proof.status == "interrupted"
    assert found.total.rps > 0


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("nothing", [True, False])
def test_what_was_found_stays_where_the_next_round_is_broken_off(monkeypatch, nothing):
    rounds, solve = list[int](), module.fleet.solve

    def second(problem, *more):
        rounds.append(1)
        if len(rounds) < 2:
            return solve(problem, *more)
        return NOTHING if nothing else replace(solve(problem, *more), status="interrupted")

    monkeypatch.setattr(module, "tidied", lambda problem, s, limits: s)
    monkeypatch.setattr(module, "sound_fleets", lambda *_: None)
    monkeypatch.setattr(module, "_split", lambda joint, *_: joint)
    monkeypatch.setattr(module.fleet, "solve", second)
    found = planned()

    assert found.proof.status == "interrupted"
    assert found.total.rps > 0
    assert len(rounds) == 2


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("where", ["realised", "sound_fleets"])
def test_a_part_that_was_broken_off_is_the_last(monkeypatch, where):
    calls = list[str]()

    def called(name, part):
        def made(*given):
            calls.append(name)
            own = part(*given)
            status = "interrupted" if name == where else own.solution.status
            return replace(own, solution=replace(own.solution, status=status))

        return made

    for name in ("realised", "sound_fleets", "_split"):
        part = getattr(module, name)
        monkeypatch.setattr(module, name, called(name, part) if name != "_split" else broken_off)

    assert planned().proof.status == "interrupted"
    assert calls == ["realised", "sound_fleets"][: 1 + (where == "sound_fleets")]


def test_where_nothing_was_found_the_interrupt_is_heard(monkeypatch):
    monkeypatch.setattr(module, "realised", broken_off)

    with pytest.raises(KeyboardInterrupt):
        planned()


def test_traffic_that_was_not_spread_stays_as_it_was(monkeypatch):
    monkeypatch.setattr(module, "tidied", broken_off)

    assert module.settled(None, None, SERVED, Limits(), 0.1) == replace(SERVED, status="interrupted")
    monkeypatch.setattr(module, "tidied", lambda problem, s, limits: s)
    monkeypatch.setattr(module, "_spread", broken_off)
    asked = SimpleNamespace(demand=1.0)
    assert module.settled(asked, None, SERVED, Limits(), 0.1) == replace(SERVED, status="interrupted")


@pytest.mark.parametrize("carried", [None, "some"])
def test_sound_fleets_that_were_broken_off_are_not_solved_again(monkeypatch, carried):
    solved = []
    fleets = SimpleNamespace(solution=SERVED)
    monkeypatch.setattr(module.fleet, "solve", lambda *_: solved.append(1) or SERVED)
    monkeypatch.setattr(module, "settled", lambda joint, problem, s, *_: s)
    monkeypatch.setattr(module, "apart", lambda *_: fleets)
    monkeypatch.setattr(module, "carrying", lambda *_: carried)

    if carried is None:
        with pytest.raises(KeyboardInterrupt):
            module.sound_fleets(None, None, Limits(), 0.1)
    else:
        assert module.sound_fleets(None, None, Limits(), 0.1) == carried
    assert len(solved) == 1
    monkeypatch.setattr(module.fleet, "solve", lambda *_: NOTHING)
    with pytest.raises(KeyboardInterrupt):
        module.sound_fleets(None, None, Limits(), 0.1)


def test_broken_off_while_each_is_left_out_the_plans_are_told(monkeypatch):
    def first_only(*_):
        yield from ()
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "taken", first_only)
    found = planned(explain=True)

    assert found.total.rps > 0
    assert (found.proof.status, found.prices) == ("interrupted", [])


@pytest.mark.parametrize("demand", [None, 8.0])
def test_why_there_is_no_fleet_is_not_told_of_a_search_that_was_stopped(monkeypatch, demand):
    monkeypatch.setattr(plan, "most_of", lambda joint: joint)
    monkeypatch.setattr(plan, "find", lambda *_: (None, NOTHING))
    joint = Joint((), demand)

    with pytest.raises(KeyboardInterrupt):
        none_found(joint, "interrupted", Limits())
    assert isinstance(none_found(joint, "time_limit", Limits()), OutOfTime)
    if demand:
        with pytest.raises(KeyboardInterrupt):
            none_found(joint, "infeasible", Limits())


@pytest.mark.parametrize(
    ("rate", "status", "bound", "said"),
    [
        (None, "infeasible", None, "no fleet serves all models at once within their limits, at any rate"),
        (None, "optimal", 0.0, "no fleet serves all models at once within their limits, at any rate"),
        (None, "time_limit", None, "not all rates can be served at once"),
        (None, "time_limit", 9.0, "not all rates can be served at once"),
        (6.0, "optimal", 6.0, "not all rates can be served: at most 75 % of each at once"),
        (6.0, "time_limit", 7.0, "not all rates can be served: at most 87.5 % of each at once"),
        (6.0, "time_limit", 9.0, "not all rates can be served: 75 % were found of each at once"),
        (6.0, "time_limit", None, "not all rates can be served: 75 % were found of each at once"),
    ],
)
def test_the_most_that_can_be_served_is_told_as_far_as_it_is_proven(monkeypatch, rate, status, bound, said):
    s = FleetSolution(status, rate, bound, "none", rate=rate or 0.0)
    monkeypatch.setattr(plan, "most_of", lambda joint: joint)
    monkeypatch.setattr(plan, "find", lambda *_: (None if rate is None else SimpleNamespace(solution=s), s))
    why = none_found(Joint((), 8.0), "infeasible", Limits())

    assert isinstance(why, Infeasible)
    assert why.message == said
    assert rate is None or "75 %" in why.hint
