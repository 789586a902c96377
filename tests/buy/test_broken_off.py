"""Ctrl-C and time that is over while buying: what was found stays, and nothing is told that was not."""

from dataclasses import replace

import pytest

from planner.buy import find as module
from planner.buy import outlook as looking
from planner.buy import shortlist as short
from planner.buy.find import on_its_own
from planner.buy.outlook import Prices, more, outlook
from planner.errors import Infeasible, OutOfTime
from planner.plans.schema import OUT_OF_TIME, Cap
from tests.buy.test_buy import UNLIKE, asked, asking

__all__ = ["asked"]

DEARER = UNLIKE + "  - {name: dear, device: l4, gpus_per_node: 1, price_usd_per_hour: 0.9, count: 3}\n"


def broken_off(*_, **__):
    raise KeyboardInterrupt


def interrupted(plan):
    """The plan of a search that was broken off."""
    return plan.model_copy(update={"proof": plan.proof.model_copy(update={"status": "interrupted"})})


@pytest.fixture(scope="module")
def purchase(tmp_path_factory):
    return asking(tmp_path_factory.mktemp("offers"))(None, UNLIKE, rate=7.0)


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
    some = {"break_evens": (["some"], 0), "more": ["some"]}
    for name, found_there in some.items():
        given = broken_off if name == where else lambda *_, own=found_there: own
        monkeypatch.setattr(looking, name, given)
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


def test_of_many_offers_the_plan_on_a_few_stands_where_the_time_ends(asked, monkeypatch):
    def late(*_):
        raise OutOfTime("late")

    monkeypatch.setattr(short, "MANY", 2)
    monkeypatch.setattr(module, "affordable", late)
    found, _, _ = asked("1.5$/h", DEARER)

    assert {each.offer for each in found.bought} == {"small"}
    assert (found.offers, found.in_time) == (3, False)
    monkeypatch.setattr(short, "MANY", 4)
    with pytest.raises(OutOfTime):
        asked("1.5$/h", DEARER)


@pytest.mark.parametrize(
    ("late", "own", "stands"), [(False, 0.5, "whole"), (True, 0.5, "few"), (True, 2.0, "whole")]
)
def test_the_better_stands_where_the_whole_market_was_looked_at_in_part(
    asked, purchase, monkeypatch, late, own, stands
):
    """For a budget, whose plans serve requests/s."""
    space = purchase[0].plan.proof.space
    caps = [Cap(what=OUT_OF_TIME, value=1, binds=True)] if late else []
    proof = purchase[0].plan.proof.model_copy(
        update={
            "sense": "max",
            "objective": own,
            "chosen": None,
            "space": space.model_copy(update={"caps": caps}),
        }
    )
    whole = purchase[0].plan.model_copy(update={"proof": proof})
    few = whole.model_copy(update={"proof": proof.model_copy(update={"objective": 1.0})})
    monkeypatch.setattr(short, "MANY", 2)
    monkeypatch.setattr(module, "affordable", lambda *_: whole)
    monkeypatch.setattr(module, "_on_few", lambda *_: few)

    found = module.in_time_for(purchase[1], purchase[2])
    assert found is {"whole": whole, "few": few}[stands]


def test_what_would_change_a_purchase_is_looked_for_within_its_time(purchase, monkeypatch):
    found, offered, wish = purchase
    over = replace(wish, until=0.0)
    told = outlook(found, offered, over)

    assert (list(told.break_even), told.unpriced) == ([], 2)
    assert [each.bought for each in told.more] == [None, None, None]
    assert told.plan is found.plan
