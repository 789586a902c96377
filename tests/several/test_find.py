"""The search of several models keeps the better fleet, knows when it is proven, carries a true bound."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import OutOfTime
from planner.search.find import WHOLE
from planner.several import find
from planner.several.joint import Fleets
from planner.several.plan import plan_several
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits

COSTS, SERVES = 1.0, -1.0
"""Signs of objectives of which less is better, and more."""


def fleets(value: float | None, sign: float = COSTS, status: str = "time_limit") -> Fleets:
    joint = SimpleNamespace(objective=SimpleNamespace(sign=sign))
    return Fleets(joint, None, FleetSolution(status, value, None, "none"), (), ())


@pytest.mark.parametrize(
    ("sign", "one", "other", "better"),
    [
        (COSTS, 3.0, 2.0, 2.0),
        (COSTS, 2.0, 3.0, 2.0),
        (SERVES, 3.0, 2.0, 3.0),
        (SERVES, 2.0, 3.0, 3.0),
        (COSTS, None, 2.0, 2.0),
        (COSTS, 2.0, None, 2.0),
        (SERVES, 2.0, None, 2.0),
    ],
)
def test_the_better_of_two_is_kept(sign, one, other, better):
    first, second = (None if value is None else fleets(value, sign) for value in (one, other))

    assert find._better(sign, first, second).solution.objective == better


def test_of_equals_the_first_is_kept_and_none_is_better_than_nothing():
    first, second = fleets(2.0), fleets(2.0)

    assert find._better(COSTS, first, second) is first
    assert find._better(COSTS, None, None) is None


@pytest.mark.parametrize(
    ("sign", "value", "bound", "enough"),
    [
        (COSTS, 100.0, 99.5, True),  # half a per cent; one is asked for
        (COSTS, 100.0, 98.5, False),
        (SERVES, 100.0, 100.5, True),
        (SERVES, 100.0, 101.5, False),
        (COSTS, 100.0, 103.0, True),  # beyond its bound: nothing better is to be found
        (SERVES, 100.0, 97.0, True),
        (COSTS, None, 99.0, False),
        (COSTS, 100.0, None, False),
    ],
)
def test_it_is_enough_when_the_gap_is_as_small_as_asked(sign, value, bound, enough):
    best = None if value is None else fleets(value, sign)

    assert find._enough(best, bound, Limits(gap=0.01), sign) is enough


@given(st.floats(1, 1e6), st.floats(0, 0.5), st.sampled_from([COSTS, SERVES]))
def test_a_fleet_that_keeps_to_its_bound_carries_that_bound(value, share, sign):
    bound = value * (1 - sign * share)
    s = find.proven(fleets(value, sign), bound, Limits(gap=0.01)).solution

    assert (s.objective, s.bound) == (value, bound)
    assert (s.status in ("optimal", "within_gap")) == (abs(bound - value) / value <= 0.01)


@pytest.mark.parametrize("sign", [COSTS, SERVES])
def test_a_bound_that_only_rounding_breaks_is_the_value(sign):
    value = 100.0
    s = find.proven(fleets(value, sign), value * (1 + sign * find.ROUNDED / 2), Limits()).solution

    assert s.bound == value
    assert s.status == "optimal"


@pytest.mark.parametrize("sign", [COSTS, SERVES])
def test_a_bound_that_is_beaten_by_more_stays_for_the_check_to_find(sign):
    bound = 100.0 * (1 + 2 * sign * find.ROUNDED)

    assert find.proven(fleets(100.0, sign), bound, Limits()).solution.bound == bound


@pytest.mark.parametrize(
    ("sign", "relaxed", "bound"),
    [(COSTS, 40.0, 40.0), (SERVES, 140.0, 140.0), (COSTS, None, 0.0), (SERVES, None, 900.0)],
)
def test_without_a_bound_of_its_own_the_relaxations_is_taken(monkeypatch, sign, relaxed, bound):
    monkeypatch.setattr(find.fleet, "relaxed", lambda problem, limits: relaxed)
    monkeypatch.setattr(find.fleet, "ceiling", lambda problem: 900.0)
    best = replace(fleets(100.0, sign), bounding="a problem")

    assert find.proven(best, None, Limits()).solution.bound == bound


def test_an_interrupted_search_stays_one():
    s = find.proven(fleets(100.0, status="interrupted"), 50.0, Limits(gap=0.01)).solution

    assert s.status == "interrupted"


@pytest.mark.parametrize(
    ("value", "said", "whole"),
    [(100.0, 100.0, True), (100.0, 100.4, True), (100.0, 101.0, False), (None, 100.0, False)],
)
def test_a_fleet_is_whole_where_the_model_leaves_it_nearly_all(value, said, whole):
    assert find._whole(fleets(value), FleetSolution("time_limit", said, None, "none")) is whole


class Asking:
    """A question whose columns of pairs are made finer, or for which there is no time."""

    def __init__(self, edges: object, late: bool = False) -> None:
        self.edges, self.late = edges, late

    def finer(self, pool: str, edges: object) -> str:
        if self.late:
            raise OutOfTime("no time")
        return f"{pool} at {edges}"


@pytest.mark.parametrize(
    ("edges", "late", "pools"),
    [
        ((None, None), False, None),
        ((None, "0.5"), False, ["a", "b at 0.5"]),
        (("0.2", "0.5"), False, ["a at 0.2", "b at 0.5"]),
        (("0.2", "0.5"), True, None),
    ],
)
def test_columns_are_split_in_models_whose_bound_lies_between_edges(monkeypatch, edges, late, pools):
    models = [
        SimpleNamespace(question=Asking(own, late), pool=name) for own, name in zip(edges, "ab", strict=True)
    ]
    joint = SimpleNamespace(models=models, with_pools=list)
    monkeypatch.setattr(find, "edges_between", lambda question, found: question.edges)

    assert find._finer(joint, SimpleNamespace(found=("x", "y"))) == pools


def test_what_is_found_stays_where_the_time_ends_within_a_later_step():
    def late():
        raise OutOfTime("no time")

    assert find._unless_late("a fleet", late) is None
    assert find._unless_late("a fleet", lambda: "better") == "better"
    with pytest.raises(OutOfTime):
        find._unless_late(None, late)


def test_a_search_that_ends_while_the_sound_program_is_judged_gives_the_bounds_fleet(monkeypatch):
    """Under a busy machine's clock two models had no plan where one was found already."""

    def late(*_):
        raise OutOfTime("no time")

    monkeypatch.setattr(find, "_enough", lambda *_: False)
    monkeypatch.setattr(find, "_whole", lambda *_: False)
    monkeypatch.setattr(find, "sound_fleets", late)
    both = ("llama-3.1-8b", "qwen3-8b")
    found = plan_several(None, both, gpus="16xH100", engine="vllm", explain=False, work_limit=50)

    assert found.total.rps > 0


def test_a_search_that_ends_by_itself_says_what_left_a_gap():
    asked = {"gpus": "4xH100", "engine": "vllm", "gap": 0.0, "explain": False}
    proof = plan_several(None, ["llama-3.1-8b", "qwen3-8b"], **asked).proof

    assert 0 < proof.gap < 1e-3
    assert (proof.status, proof.why, proof.exit_code) == ("not_closed", WHOLE, 4)
