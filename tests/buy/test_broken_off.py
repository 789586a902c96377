"""Ctrl-C and time that is over while buying: what was found stays, and nothing is told that was not."""

from dataclasses import replace

import pytest

from planner.buy import find as module
from planner.buy import outlook as looking
from planner.buy.find import on_its_own
from planner.buy.outlook import Prices, more, outlook
from planner.errors import Infeasible, OutOfTime
from tests.buy.test_buy import UNLIKE, asked

__all__ = ["asked"]


def broken_off(*_, **__):
    raise KeyboardInterrupt


def interrupted(plan):
    """The plan of a search that was broken off."""
    return plan.model_copy(update={"proof": plan.proof.model_copy(update={"status": "interrupted"})})


@pytest.fixture
def purchase(asked):
    return asked(None, UNLIKE, rate=7.0)


def test_what_is_found_first_is_bought_where_the_search_is_broken_off(purchase, monkeypatch):
    found, offered, wish = purchase
    monkeypatch.setattr(module, "_planned", broken_off)

    assert on_its_own(offered, wish, interrupted(found.plan), found.bought)[1] is found.bought


def test_a_smaller_mix_that_was_broken_off_is_not_made_smaller_still(purchase, monkeypatch):
    found, offered, wish = purchase
    more_nodes = [replace(each, nodes=each.nodes + 1) for each in found.bought]
    calls, own = list[int](), interrupted(found.plan)
    monkeypatch.setattr(module, "_planned", lambda *_, **__: calls.append(1) or own)

    plan, bought = on_its_own(offered, wish, found.plan, more_nodes)
    assert plan is own
    assert sum(each.nodes for each in bought) == sum(each.nodes for each in found.bought)
    assert calls == [1]


def test_where_the_time_is_over_on_what_is_bought_the_market_s_plan_stays(purchase, monkeypatch):
    found, offered, wish = purchase

    def late(*_, **__):
        raise OutOfTime("late")

    monkeypatch.setattr(module, "_planned", late)
    assert on_its_own(offered, wish, found.plan, found.bought) == (found.plan, found.bought)


def test_that_money_is_too_little_is_told_where_what_would_do_is_not_found_in_time(asked, monkeypatch):
    def late(*_):
        raise OutOfTime("late")

    monkeypatch.setattr(module, "without_limit", late)
    with pytest.raises(Infeasible):
        asked("0.5$/h")


@pytest.mark.parametrize("error", [Infeasible, OutOfTime])
def test_more_is_looked_at_where_a_search_has_proven_nothing_and_what_would_do_is_named(
    asked, monkeypatch, error
):
    """The budget's own search, and the first without a limit, end without a fleet."""
    tried, within = list[float](), module.within

    def first(offered, wish, limit):
        tried.append(limit)
        if len(tried) <= 2:
            raise error("nothing found")
        return within(offered, wish, limit)

    monkeypatch.setattr(module, "within", first)
    with pytest.raises(error) as told:
        asked("0.5$/h")

    assert told.value.hint.endswith("takes $1.00/h: 1 x small")
    assert tried[2] == 4 * tried[1]


@pytest.mark.parametrize("where", ["break_evens", "more"])
def test_broken_off_while_looking_further_the_purchase_stays_and_says_so(purchase, monkeypatch, where):
    found, offered, wish = purchase
    for name in ("break_evens", "more"):
        monkeypatch.setattr(looking, name, broken_off if name == where else lambda *_: ["some"])
    told = outlook(found, offered, wish)

    assert (told.plan.proof.status, told.bought) == ("interrupted", found.bought)
    assert list(told.break_even) == ([] if where == "break_evens" else ["some"])
    assert outlook(replace(found, plan=interrupted(found.plan)), offered, wish).break_even == ()


def test_ctrl_c_in_a_mix_is_heard(purchase, monkeypatch):
    found, offered, wish = purchase
    prices, find = Prices(found, offered, wish), looking.find

    def pressed(*given):
        own = find(*given)
        return replace(own, solution=replace(own.solution, status="interrupted"))

    monkeypatch.setattr(looking, "find", pressed)
    with pytest.raises(KeyboardInterrupt):
        prices.cheapest("small", 1.0)
    monkeypatch.setattr(looking, "affordable", lambda *_: interrupted(found.plan))
    with pytest.raises(KeyboardInterrupt):
        list(more(offered, wish))
